package rlock_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A process is a Client that may be closed, or die. Process w renews its holds each second, n has a name
// mapper, p reaches the server through a proxy, and o in the same way sends each request once. In a play with
// Java some are instances of Redisson.
type process struct {
	line
	limiters *rratelimiter.Client
	locks    *rlock.Client
	instance string // of Redisson; empty for a Client
	prefix   string // of its name mapper
	waiting  int
}

// A taker is a lock as a caller sees it, in either language.
type taker interface {
	// takes takes the lock within a time, which may be endless, and with a lease unless that is 0.
	takes(ctx context.Context, wait, lease time.Duration) (hold, error)
	ForceUnlock(ctx context.Context) (bool, error)
	IsLocked(ctx context.Context) (bool, error)
	RemainTimeToLive(ctx context.Context) (time.Duration, error)
}

// endless is a wait without end.
const endless time.Duration = math.MinInt64 + 1

// A hold is an rlock.Hold, or that of a thread of Java.
type hold interface {
	Owner() string
	Token() int64
	HoldCount(ctx context.Context) (int64, error)
	IsHeld(ctx context.Context) (bool, error)
	Relock(ctx context.Context) error
	Unlock(ctx context.Context) error
}

// A goLock is a lock as a caller of Go sees it.
type goLock struct{ locker }

func (l goLock) takes(ctx context.Context, wait, lease time.Duration) (hold, error) {
	var h *rlock.Hold
	var err error
	switch {
	case wait != endless:
		h, err = took(l.TryLock(ctx, wait, lease))
	case lease == 0:
		h, err = l.Lock(ctx)
	default:
		h, err = l.LockFor(ctx, lease)
	}
	switch {
	case err == nil:
		return h, nil
	case h != nil:
		err = fmt.Errorf("it has a hold, and %w", err)
	}
	return nil, err
}

// A caller has a hold, or waits for one, or both, consecutively.
type caller struct {
	p     *play
	at    *process
	lock  taker
	turn  <-chan turn
	leave context.CancelFunc
	hold  hold
	owner string
}

// A turn is what a caller that waits gets.
type turn struct {
	hold hold
	err  error
}

func (c *caller) goHold() *rlock.Hold { return c.hold.(*rlock.Hold) }

func (p *play) process(name string) *process {
	letter := name[:1]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.processes[letter] != nil {
		return p.processes[letter]
	}
	if strings.Contains(p.javas, letter) {
		p.processes[letter] = p.connect(letter)
		return p.processes[letter]
	}
	var mods []func(*redis.Options)
	var opts []rratelimiter.Option
	var lockOpts []rlock.Option
	switch letter {
	case "n":
		opts = append(opts, rratelimiter.WithNameMapper(func(string) string { return p.name }))
	case "o", "p":
		if p.proxy == nil {
			p.proxy = redistest.StartProxy(p, p.server.Addr)
		}
		mods = append(mods, func(o *redis.Options) {
			o.Addr, o.MinRetryBackoff, o.MaxRetryBackoff = p.proxy.Addr, time.Millisecond, 5*time.Millisecond
			o.ReadTimeout = p.silence // a request that is held is not sent again
		})
		if letter == "o" {
			mods = append(mods, SendsOnce)
		}
	case "w":
		lockOpts = append(lockOpts, rlock.WithWatchdogTimeout(3*time.Second))
	}
	rdb := p.dial(mods...)
	c := &process{limiters: NewClient(p, rdb, opts...)}
	p.Cleanup(c.opens) // a spec that fails may have left it closed
	rdb.AddHook(redistest.Hook(c.passes))
	rdb.AddHook(Hook(c.delays))
	c.locks = rlock.New(c.limiters, lockOpts...)
	p.processes[letter] = c
	return c
}

var isCaller = regexp.MustCompile(`^[a-z]\d*(@.*)?$`)

// caller returns a caller, nil if the word is none.
func (p *play) caller(word string) *caller {
	if !isCaller.MatchString(word) {
		return nil
	}
	at := p.process(word)
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.callers[word]
	if c == nil {
		_, beside, _ := strings.Cut(word, "@")
		c = &caller{p: p, at: at}
		if at.instance != "" {
			j := p.thread(at, beside)
			c.lock, c.owner = j, j.owner
		} else {
			c.lock = goLock{p.of(at.locks, p.name+beside)}
		}
		p.callers[word] = c
	}
	return c
}

// A line holds back, delays or breaks the requests of a process.
type line struct {
	sent atomic.Int64

	mu   sync.Mutex
	gate chan struct{} // requests wait until gate is closed; nil if they need not wait
	next chan struct{} // the next script waits until next is closed
	down bool          // requests fail
	late time.Duration // by which the replies of scripts are delayed
}

// passes is the Hook of the line.
func (l *line) passes(_ context.Context, cmds ...redis.Cmder) error {
	l.sent.Add(int64(len(cmds)))
	l.mu.Lock()
	gate, down := l.gate, l.down
	if l.next != nil && cmds[0].Name() == "evalsha" {
		gate, l.next = l.next, nil
	}
	l.mu.Unlock()
	if gate != nil {
		<-gate
	}
	if down {
		return redis.ErrPoolTimeout
	}
	return nil
}

func (l *line) delays(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
	err := next(ctx, cmd)
	if cmd.Name() == "evalsha" {
		l.mu.Lock()
		late := l.late
		l.mu.Unlock()
		time.Sleep(late)
	}
	return err
}

// opens lets waiting requests pass.
func (l *line) opens() {
	_ = l.sets(func() {
		if l.gate != nil {
			close(l.gate)
		}
		l.gate = nil
	})
}

// sets changes the line.
func (l *line) sets(change func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	return nil
}

// callerSteps are the steps of a caller. A hold has no lease unless the step names one.
var callerSteps = map[string]func(c *caller, ctx context.Context, words []string) error{
	"locks": func(c *caller, ctx context.Context, words []string) error {
		return c.holds(c.lock.takes(ctx, endless, c.p.span(words, 0)))
	},
	"takes": func(c *caller, ctx context.Context, words []string) error { // in a time, with a lease
		return c.holds(c.lock.takes(ctx, c.p.span(words, 0), c.p.span(words, 1)))
	},
	"refused": func(c *caller, ctx context.Context, words []string) error {
		defer c.p.settle()
		return wanted(ErrOf(c.lock.takes(ctx, c.p.span(words, 0), 0)), []string{errRefused.Error()})
	},
	"waits": (*caller).waits,
	"async": func(c *caller, _ context.Context, words []string) error { // waits as tryLockAsync of Java
		j := c.lock.(*thread)
		started := j.StartTryLockAsync(j.name, c.p.span(words, 0), time.Hour)
		c.turn = async(func() turn {
			ok, err := started.Wait(c.p.Context())
			if err == nil && !ok {
				err = errRefused
			}
			return turn{j, err}
		})
		c.at.waiting++
		return c.p.soon("a place", func() error {
			queue := c.p.waiting()
			return equal("queues", len(queue) > 0 && queue[len(queue)-1] == c.owner, true)
		})
	},
	// locks as lockAndGetToken of Java
	"draws": func(c *caller, ctx context.Context, _ []string) (err error) {
		j := c.lock.(*thread)
		c.hold = j
		j.token, err = j.LockAndGetToken(ctx, j.name)
		return err
	},
	"has": func(c *caller, _ context.Context, _ []string) error { return c.has() },
	"leaves": func(c *caller, ctx context.Context, _ []string) error {
		defer c.p.settle()
		c.leave()
		switch err := c.has(); {
		case err == nil: // it has asked once more as it began to hear
			return c.hold.Unlock(ctx)
		case !errors.Is(err, context.Canceled):
			return err
		}
		return nil
	},
	"unlocks": func(c *caller, ctx context.Context, _ []string) error { return c.hold.Unlock(ctx) },
	"serves": func(c *caller, ctx context.Context, _ []string) error { // unlocks, as do all in the queue then
		queue := c.p.waiting()
		err := c.hold.Unlock(ctx)
		for _, owner := range queue {
			for name, next := range c.p.callers {
				if err == nil && next.owner == owner {
					err = next.passes(ctx)
				}
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
		return err
	},
	"relocks": func(c *caller, ctx context.Context, _ []string) error { return c.hold.Relock(ctx) },
	"err": func(c *caller, _ context.Context, _ []string) error { // also that of its context
		return cmp.Or(c.goHold().Err(), context.Cause(c.goHold().Context()))
	},
	"over": func(c *caller, _ context.Context, _ []string) error { // the cause of its context's end
		select {
		case <-c.goHold().Context().Done():
			return context.Cause(c.goHold().Context())
		case <-time.After(c.p.longest()):
			return errors.New("it holds the lock for ever")
		}
	},
	"holds": func(c *caller, ctx context.Context, words []string) error {
		count, err := c.hold.HoldCount(ctx)
		held, err2 := c.hold.IsHeld(ctx)
		return errors.Join(err, err2, c.p.is("count", count, words[0]), equal("held", held, count > 0))
	},
	"sees": func(c *caller, ctx context.Context, words []string) error {
		locked, err := c.lock.IsLocked(ctx)
		return errors.Join(err, equal("locked", locked, words[0] == "locked"))
	},
	"lasts": func(c *caller, ctx context.Context, words []string) error {
		left, err := c.lock.RemainTimeToLive(ctx)
		return errors.Join(err, c.p.is("it lasts", int64(left), words[0]))
	},
	"forces": func(c *caller, ctx context.Context, words []string) error {
		forced, err := c.lock.ForceUnlock(ctx)
		return errors.Join(err, equal("forced", forced, words[0] == "yes"))
	},
	"token": func(c *caller, ctx context.Context, words []string) error { // that of its hold, or the last one
		switch {
		case !c.p.fenced():
			return nil
		case c.hold == nil:
			last, err := c.lastToken(ctx)
			return errors.Join(err, c.p.is("last token", last, words[0]))
		case words[0] == "now":
			now := c.p.look.Time(ctx).Val()
			return c.p.is("µs ago", now.UnixMicro()-c.hold.Token(), "-20000000..20000000")
		}
		return c.p.is("token", c.hold.Token(), words[0])
	},
	"follows": func(c *caller, ctx context.Context, words []string) error { // another, with a greater token
		if !c.p.fenced() {
			return equal("token", c.hold.Token(), 0)
		}
		var before int64
		if len(words) > 0 {
			before = c.p.caller(words[0]).hold.Token()
		}
		if c.hold.Token() <= before {
			return fmt.Errorf("token %d after %d", c.hold.Token(), before)
		}
		last, err := c.lastToken(ctx)
		return errors.Join(err, equal("last token", last, c.hold.Token()))
	},
}

// lastToken returns the last token of a fenced lock, as the language of the caller says.
func (c *caller) lastToken(ctx context.Context) (int64, error) {
	if java, ok := c.lock.(*thread); ok {
		return java.Lock.Token(ctx)
	}
	return c.lock.(goLock).locker.(*rlock.FencedLock).LastToken(ctx)
}

// isOwner is the form of an owner in Redis.
var isOwner = regexp.MustCompile(`^[0-9a-f-]{36}:[1-9]\d*$`)

// holds keeps a hold.
func (c *caller) holds(h hold, err error) error {
	if err != nil {
		return err
	}
	c.hold, c.owner = h, h.Owner()
	return equal("is an owner", isOwner.MatchString(c.owner), true)
}

// passes expects the caller to get the lock that it waits for, and unlocks it.
func (c *caller) passes(ctx context.Context) error {
	if err := c.has(); err != nil {
		return err
	}
	return c.hold.Unlock(ctx)
}

// waits makes the caller wait, for a time and with a lease. It returns when the caller sleeps, as the last in
// the queue if the lock is a fair one.
func (c *caller) waits(_ context.Context, words []string) error {
	var before int64
	if c.p.mini == nil {
		before = c.p.scripts()
	}
	length := len(c.p.waiting()) + 1
	ctx, leave := context.WithCancel(c.p.Context())
	c.p.Cleanup(leave)
	c.leave = leave
	wait := endless
	if len(words) > 0 && words[0] != "endless" {
		wait = c.p.span(words, 0)
	}
	got := async(func() turn {
		h, err := c.lock.takes(ctx, wait, c.p.span(words, 1))
		return turn{h, err}
	})
	c.turn = got
	fair := c.p.kind() == javapeer.Fair
	asks := int64(2) // it asks once more when it has subscribed
	if c.at.waiting > 0 {
		asks = map[bool]int64{true: 1, false: 0}[fair]
	}
	c.at.waiting++
	sleeps := func() bool { return c.p.scripts() >= before+asks }
	if java, ok := c.lock.(*thread); ok {
		sleeps = java.waits
	} else if fair && c.p.peer != nil { // Java sends scripts all the time
		sleeps = func() bool { return c.p.queued(length) }
	}
	if c.p.mini != nil {
		c.p.settle()
	} else {
		redistest.Eventually(c.p, "a waiter", func() bool { return len(got) > 0 || sleeps() })
	}
	if queue := c.p.waiting(); fair && len(queue) >= length {
		c.owner = queue[length-1]
	}
	return nil
}

// has returns when the caller has the lock that it waits for, or an error.
func (c *caller) has() error {
	select {
	case t := <-c.turn:
		c.at.waiting--
		return c.holds(t.hold, t.err)
	case <-time.After(c.p.longest()):
		return errors.New("it waits for ever")
	}
}
