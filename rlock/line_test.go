package rlock_test

import (
	"context"
	_ "embed" // testdata
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

//go:embed testdata/line.txt
var lineRows string

// The waiters of a process stand in a line, and an unlock hands the lock on to the first.
func TestLine(t *testing.T) {
	t.Parallel()
	const left = "a1 locks; a2 waits; freeze a; go a1 unlocks; a2 leaves; "
	const early = "a1 locks; a2 waits; a3 waits; freeze a; go a1 unlocks; a2 leaves; "
	const next = "now; thaw a; a3 has; after 0s..1s; hash a3 1; a3 unlocks"
	hold := func(d string) string {
		return "hearers 2; a1 locks; sleep " + d + "; a1 unlocks; redis HSET LOCK java:1 1; a2 waits; " +
			"sleep 1s; redis DEL LOCK; now; redis PUBLISH CHANNEL 0; a2 has; "
	}
	specs := Rows(lineRows)
	maps.Copy(specs, map[string]string{
		"a successor has left: the next one gets the lock at once": early + next + "; done a1",

		"also if it comes later": left + "a3 waits; " + next + "; done a1",

		"a successor has left, and the lock was deleted": early + "redis DEL LOCK; " + next +
			"; done a1 ! ErrLost",
		"and the next one comes later": left + "redis DEL LOCK; a3 waits; " + next + "; done a1 ! ErrLost",

		"after a short hold it yields to its own unlock alone": hold("1ms") + "after 0s",

		"after a hold of more than 10 ms each client that it has notified gets a turn": hold("20ms") +
			"after 10ms",
	})
	tell(t, kinds["plain"], specs)
}

// Without the right to publish, or the right to the channel, waiters still get the lock in time.
func TestWaitersAreServedWithoutRights(t *testing.T) {
	t.Parallel()
	for what, rights := range map[string][]string{
		"channel": {"resetchannels", "+@all"}, "publish": {"allchannels", "+@all", "-publish"},
	} {
		t.Run(what, func(t *testing.T) {
			s := onRights(t, append([]string{"allkeys"}, rights...)...)
			NoError(t, newPlay(s, kinds["plain"]).tells("now; a1 locks 3s; b1 waits; a1 unlocks; b1 has; "+
				"ran 3..10; b2 waits; b1 unlocks; b2 has; b2 unlocks; free"))
		})
	}
}

// A thousand messages without an unlock cost fewer script calls: the first waiter asks once for all
// messages that arrived during its request, and the rest of the line does not ask.
func TestManyMessagesCostFewScripts(t *testing.T) {
	s := onRedis(t)
	p := newPlay(s, kinds["plain"])
	const messages = 1000
	NoError(t, p.tells("a1 locks; "+strings.Repeat("b1 waits; ", 20)+"now"))
	pipe := s.look.Pipeline()
	for range messages {
		pipe.Publish(t.Context(), s.keys.Channel, "0")
	}
	NoError(t, ErrOf(pipe.Exec(t.Context())))
	time.Sleep(100 * time.Millisecond) // for what it may still ask
	NoError(t, p.tells(fmt.Sprint("ran 0..", messages/2)))
}

// A hand-over costs two script calls at most in one process, and three where four contend: only the first
// waiter asks.
func TestScriptCallsOfAHandOver(t *testing.T) {
	t.Parallel()
	for processes, most := range map[string]int64{"a": 2, "abcd": 3} {
		t.Run(processes, func(t *testing.T) {
			p := newPlay(onRedis(t), kinds["plain"])
			const callers, rounds = 16, 40
			var all sync.WaitGroup
			for letter := range strings.SplitSeq(processes, "") {
				lock := p.process(letter).locks.Lock(p.name)
				for range callers {
					all.Go(func() {
						for range rounds / len(processes) {
							if err := pass(within(t), lock); err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			all.Wait()
			if calls := p.scripts(); calls > most*callers*rounds {
				t.Errorf("%d script calls for %d hand-overs", calls, callers*rounds)
			}
		})
	}
}

// Callers that wait for several locks share one subscribed connection, which has no subscriptions when they
// have left.
func TestWaitersShareASubscription(t *testing.T) {
	eachKind(t, func(t *testing.T, of kind) {
		s := onRedis(t)
		p := newPlay(s, of)
		NoError(t, p.tells("a1@1 locks; a1@2 locks; a1@3 locks; a2@1 waits; a3@2 waits; a4@3 waits; "+
			"subscribed 3"))
		text := must(s.look.Do(t.Context(), "CLIENT", "LIST", "TYPE", "pubsub").Text())(t)
		want(t, "connections that are subscribed", strings.Count(text, "\n"), 1)
		NoError(t, p.tells("a1@1 unlocks; a1@2 unlocks; a1@3 unlocks; a2@1 has; a3@2 has; a4@3 has; "+
			"subscribed 0"))
	})
}

// Thousands of callers wait for a lock and leave when their waits or contexts end, before Redis is frozen and
// after. Each leaves on time, and then nothing is left.
func TestManyWaitersLeaveInTime(t *testing.T) {
	inBubble(t, func(s *env) {
		p := newPlay(s, kinds["plain"])
		NoError(s, p.tells("a1 locks; now"))
		lock := p.process("a").locks.Lock(s.name)
		var wrong atomic.Int64
		var all sync.WaitGroup
		for i := range 10_000 {
			wait := time.Duration(1+i%4) * time.Second
			all.Go(func() {
				ctx, start := s.Context(), time.Now()
				err := error(nil)
				if i%3 == 0 {
					ctx, cancel := context.WithTimeout(ctx, wait)
					defer cancel()
					err = wanted(ErrOf(lock.Lock(ctx)), []string{"DeadlineExceeded"})
				} else {
					err = refusal(lock.TryLock(ctx, wait, 0))
				}
				if err != nil || time.Since(start) != wait {
					wrong.Add(1)
				}
			})
		}
		time.Sleep(2500 * time.Millisecond)
		NoError(s, p.tells("freeze a"))
		all.Wait()
		want(s, "callers that left late, or with something", wrong.Load(), 0)
		NoError(s, p.tells("sent 0..100; thaw a; a1 unlocks; free; a1 takes 0s 1s"))
	})
}

// The waits of a line end at the moment when the caller after the first is to ask.
func TestWaitsOfALineEndTogether(t *testing.T) {
	inBubble(t, func(s *env) {
		p := newPlay(s, kinds["plain"])
		NoError(s, p.tells("freeze a"))
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				_, _, err := p.process("a").locks.Lock(s.name).TryLock(s.Context(), time.Second, 0)
				WantErr(s, err, rratelimiter.ErrNoAnswer)
			})
		}
		all.Wait()
		NoError(s, p.tells("thaw a"))
		synctest.Wait()
	})
}

// A stopped server, or one whose replies are delayed, delays no caller beyond its wait, and none gets an
// error of the network, though there is one connection. Locks granted meanwhile are given back.
func TestCallersLeaveASilentServerInTime(t *testing.T) {
	t.Parallel()
	const wait = 200 * time.Millisecond
	for what, silence := range map[string]func(p *play) (end func()){
		"stopped, in the caller's goroutine": func(p *play) func() { return p.server.Freeze(p) },
		"stopped":                            func(p *play) func() { return p.server.Freeze(p) },
		"requests":                           func(p *play) func() { return p.proxy.Hold() },
		"late replies": func(p *play) func() {
			p.proxy.Delay(time.Second)
			return func() { p.proxy.Delay(0) }
		},
	} {
		t.Run(what, func(t *testing.T) {
			// go-redis alone would give up after minutes.
			p := newPlay(onRedis(t, func(o *redis.Options) {
				o.PoolSize, o.ReadTimeout = 1, 5*time.Minute
				o.ContextTimeoutEnabled = strings.Contains(what, "caller's")
			}), kinds["plain"])
			NoError(t, p.tells("p1 locks; p1 unlocks"))
			end := silence(p)
			start := time.Now()
			locks := p.process("p").locks
			var all sync.WaitGroup
			for i := range 100 {
				all.Go(func() { // one in line, one alone
					_, ok, err := locks.Lock(fmt.Sprint(p.name, i%2*i)).TryLock(t.Context(), wait, 0)
					// Some come late to a line whose first has been asking for long.
					if ok || err == nil || !strings.HasSuffix(err.Error(), "ms, when the wait ended") {
						t.Errorf("%v, %v; want ErrNoAnswer", ok, err)
					}
				})
			}
			all.Wait()
			lasted(t, "TryLock", time.Since(start), wait, patience)
			end()
			NoError(t, pass(within(t), p.locks.Lock(p.name+"0")))
			NoError(t, p.free())
		})
	}
}

func goroutine() string {
	stack := make([]byte, 64)
	return strings.Fields(string(stack[:runtime.Stack(stack, false)]))[1]
}

// A request is made in the goroutine of its caller if the caller cannot have to leave before go-redis does:
// its context has no end, or only a deadline, which go-redis keeps.
func TestRequestRunsInTheGoroutineOfItsCaller(t *testing.T) {
	t.Parallel()
	for what, tc := range map[string]struct{ keeps, cancels, dated, here bool }{
		"a context without an end":                     {here: true},
		"a context that can be cancelled":              {cancels: true},
		"a deadline":                                   {dated: true},
		"a deadline that go-redis keeps":               {dated: true, keeps: true, here: true},
		"a cancellation that go-redis does not know":   {cancels: true, keeps: true},
		"a context without an end, deadlines are kept": {keeps: true, here: true},
	} {
		t.Run(what, func(t *testing.T) {
			s := onRedis(t, func(o *redis.Options) { o.ContextTimeoutEnabled = tc.keeps })
			ctx, cancel := context.Background(), context.CancelFunc(func() {})
			if tc.dated {
				ctx, cancel = context.WithTimeout(ctx, patience)
			} else if tc.cancels {
				ctx, cancel = context.WithCancel(ctx)
			}
			defer cancel()
			var here, elsewhere atomic.Int64
			me := goroutine()
			s.rdb.AddHook(redistest.Hook(func(_ context.Context, cmds ...redis.Cmder) error {
				switch {
				case !strings.HasPrefix(cmds[0].Name(), "eval"): // of the cleaner
				case goroutine() == me:
					here.Add(1)
				default:
					elsewhere.Add(1)
				}
				return nil
			}))
			NoError(t, pass(ctx, s.locks.Lock(s.name))) // shows Redis the scripts
			here.Store(0)
			elsewhere.Store(0)
			h := must(s.locks.Lock(s.name).Lock(ctx))(t)
			NoError(t, h.Relock(ctx))
			NoError(t, h.Unlock(ctx))
			NoError(t, h.Unlock(ctx))
			got := [2]int64{here.Load(), elsewhere.Load()}
			all := map[bool][2]int64{true: {4, 0}, false: {0, 4}}[tc.here]
			want(t, "requests here and elsewhere", got, all)
		})
	}
}
