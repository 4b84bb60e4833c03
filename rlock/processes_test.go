package rlock_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// The specs here are Jepsen's of a lock that protects a set: processes read the set under the lock, sleep
// over it, and write it back with an element more. An element that was written and is not there in the end
// is an update that was lost.

// envProcess holds the orders of a process. If it is set, the test binary is such a process.
const envProcess = "RLOCK_TEST_PROCESS"

type orders struct {
	Addr, Lock, Set string
	Watchdog        time.Duration
	Fenced          bool
}

// A writer adds elements to a set in Redis.
type writer struct {
	orders
	rdb  *redis.Client
	lock *rlock.FencedLock
}

// newWriter returns a writer, and what ends it.
func newWriter(o orders) (w *writer, end func()) {
	rdb := redis.NewClient(&redis.Options{Addr: o.Addr})
	limiters := rratelimiter.New(rdb)
	locks := rlock.New(limiters, rlock.WithWatchdogTimeout(o.Watchdog))
	return &writer{o, rdb, locks.FencedLock(o.Lock)}, func() { _, _ = limiters.Close(), rdb.Close() }
}

// The set is the field "set" of a hash; the greatest token that it was shown is beside it. A read also
// shows the token, because a write depends on what was read.
var (
	readSet  = redis.NewScript(fence + `return redis.call('HGET', KEYS[1], 'set') or ''`)
	writeSet = redis.NewScript(fence + `redis.call('HSET', KEYS[1], 'set', ARGV[3]) return 'OK'`)
)

const fence = `if ARGV[1] == '1' then
  if (tonumber(redis.call('HGET', KEYS[1], 'token')) or 0) > tonumber(ARGV[2]) then
    return redis.error_reply('TOOLATE')
  end
  redis.call('HSET', KEYS[1], 'token', ARGV[2])
end
`

// adds adds an element under the lock. Between reading and writing it calls sleep.
func (w *writer) adds(ctx context.Context, element string, sleep func()) error {
	h, err := w.lock.Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = h.Unlock(ctx) }() // it may be lost
	fenced := 0
	if w.Fenced {
		fenced = 1
	}
	set, err := readSet.Run(ctx, w.rdb, []string{w.Set}, fenced, h.Token()).Text()
	if err == nil {
		err = h.Err() // a careful writer checks the hold
	}
	if err == nil {
		sleep()
		err = writeSet.Run(ctx, w.rdb, []string{w.Set}, fenced, h.Token(), set+" "+element).Err()
	}
	return err
}

// process adds the elements whose names come in, one in a line. For each it prints "read" when it has read
// the set, waits for one more line, and prints what came of it.
func process(text string, in io.Reader, out io.Writer) error {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	w, end := newWriter(o)
	defer end()
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		err := w.adds(context.Background(), lines.Text(), func() {
			fmt.Fprintln(out, "read")
			lines.Scan()
		})
		switch {
		case err == nil:
			fmt.Fprintln(out, "written")
		case redis.HasErrorPrefix(err, "TOOLATE") || errors.Is(err, rlock.ErrLost):
			fmt.Fprintln(out, "refused")
		default:
			return err
		}
	}
	return lines.Err()
}

// A child is such a process.
type child struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startChild(t *testing.T, o orders) *child {
	t.Helper()
	text := must(json.Marshal(o))(t)
	c := &child{t: t, cmd: exec.CommandContext(t.Context(), must(os.Executable())(t))}
	c.cmd.Env = append(os.Environ(), envProcess+"="+string(text))
	c.cmd.Stderr = os.Stderr
	c.in = must(c.cmd.StdinPipe())(t)
	c.out = bufio.NewScanner(must(c.cmd.StdoutPipe())(t))
	noError(t, c.cmd.Start())
	t.Cleanup(func() { _, _ = c.cmd.Process.Kill(), c.cmd.Wait() })
	return c
}

// says sends a line to the child.
func (c *child) says(line string) {
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		c.t.Error(err)
	}
}

// hears returns what the child prints next.
func (c *child) hears() string {
	if !c.out.Scan() {
		c.t.Error("a process has ended")
	}
	return c.out.Text()
}

// stops stops the child, and returns when all its threads stand still.
func (c *child) stops() {
	var status syscall.WaitStatus
	err := c.cmd.Process.Signal(syscall.SIGSTOP)
	if err == nil {
		_, err = syscall.Wait4(c.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
	}
	if err != nil || !status.Stopped() {
		c.t.Errorf("stopping a process: %v, %v", status, err)
	}
}

// goesOn lets the child go on.
func (c *child) goesOn() {
	if err := c.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		c.t.Error(err)
	}
}

// newSet returns orders for a set of its own.
func newSet(t *testing.T, fenced bool, watchdog time.Duration) (s *env, o orders) {
	t.Helper()
	t.Parallel()
	server := redistest.Start(t)
	s = newEnv(t, server.Client(t), server.Admin())
	return s, orders{server.Addr, redistest.Name(t), redistest.Name(t), watchdog, fenced}
}

// elements returns what is in the set.
func (s *env) elements(o orders) map[string]bool {
	s.Helper()
	all := map[string]bool{}
	for element := range strings.FieldsSeq(must(s.look.HGet(s.Context(), o.Set, "set").Result())(s)) {
		all[element] = true
	}
	return all
}

// A holder is stopped between reading and writing, past its lease. Another process gets the lock and
// writes. When the first one continues, its write undoes that, unless the set rejects old tokens. No lock
// can prevent it.
func TestHolderThatSleepsPastItsLease(t *testing.T) {
	t.Parallel()
	for fenced, result := range map[bool]string{false: "written", true: "refused"} {
		t.Run(fmt.Sprintf("fenced %v", fenced), func(t *testing.T) {
			s, o := newSet(t, fenced, 300*time.Millisecond)
			sleeper := startChild(t, o)
			sleeper.says("slow")
			want(t, "the sleeper", sleeper.hears(), "read")
			sleeper.stops()
			sleeper.says("") // it would go on now
			w, end := newWriter(o)
			defer end()
			noError(t, w.adds(within(t), "quick", func() {})) // when the lease of the sleeper has ended
			sleeper.goesOn()
			want(t, "the result of the sleeper", sleeper.hears(), result)
			elements := s.elements(o)
			want(t, "the quick one's element is there", elements["quick"], fenced)
			want(t, "the sleeper's element is there", elements["slow"], !fenced)
		})
	}
}

// Processes add to a set, each as fast as it can. Without fence nothing is lost as long as none of them
// stops. With it, nothing is lost even though they are stopped past their leases.
func TestLockSet(t *testing.T) {
	t.Parallel()
	for what, tc := range map[string]struct {
		stops    bool
		watchdog time.Duration
	}{"undisturbed": {false, 30 * time.Second}, "stopped": {true, 200 * time.Millisecond}} {
		t.Run(what, func(t *testing.T) {
			s, o := newSet(t, tc.stops, tc.watchdog)
			const processes = 4
			adds := redistest.Rounds(t, 12)
			written := make(chan string, processes*adds)
			var all sync.WaitGroup
			children := make([]*child, processes)
			for i := range children {
				children[i] = startChild(t, o)
			}
			for i, c := range children {
				all.Go(func() {
					for n := range adds {
						element := fmt.Sprintf("%d-%d", i, n)
						stopped := false
						for said := ""; said != "written"; {
							c.says(element)
							for said = c.hears(); said == "read"; said = c.hears() {
								if tc.stops && n%processes == i && !stopped {
									stopped = true
									c.stops()
									time.Sleep(2 * tc.watchdog)
									c.goesOn()
								}
								c.says("")
							}
							if t.Failed() {
								return
							}
						}
						written <- element
					}
				})
			}
			all.Wait()
			close(written)
			elements := s.elements(o)
			for element := range written {
				if !elements[element] {
					t.Errorf("%s was written, and is not there", element)
				}
			}
			want(t, "elements", len(elements), processes*adds)
		})
	}
}
