package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A crowd is callers in several processes that all want one lock. It counts how many of them believe that
// they hold it.
type crowd struct {
	*play
	trouble
	passes, passesOfJava, lost atomic.Int64

	mu     sync.Mutex
	since  map[hold]time.Time // when the next holder followed each of them; zero if none has
	unseen time.Duration      // the longest time in which a caller has not noticed the next holder
	token  int64              // the last token
}

// begins notes a new holder, and expects a token greater than all before.
func (c *crowd) begins(h hold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other, at := range c.since {
		if at.IsZero() {
			c.since[other] = time.Now()
		}
	}
	c.since[h] = time.Time{}
	fenced := h.Token() > 0
	if fenced && c.overlap == 0 && h.Token() <= c.token {
		c.Errorf("token %d after %d", h.Token(), c.token)
	}
	c.token = h.Token()
}

// ends notes that a holder is about to give the lock back, or knows that it has lost it.
func (c *crowd) ends(h hold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.since[h]; !at.IsZero() {
		c.unseen = max(c.unseen, time.Since(at))
	}
	delete(c.since, h)
}

// wait returns how long a caller waits, and may make it leave earlier.
func (c *crowd) wait(leave func()) time.Duration {
	switch what := rand.IntN(4); {
	case c.patient:
	case what == 0:
		return rand.N(3 * time.Millisecond)
	case what == 1:
		time.AfterFunc(rand.N(2*time.Millisecond), leave)
	case what == 2:
		return 0
	}
	return endless
}

// takes makes a caller hold the lock once, for a moment, unless it is refused or leaves.
func (c *crowd) takes(ctx context.Context, lock taker, renewed bool) {
	asking, leave := context.WithCancel(ctx)
	defer leave()
	wait := c.wait(leave)
	h, err := lock.takes(asking, wait, 0)
	if wait != endless && errors.Is(err, rratelimiter.ErrNoAnswer) { // the wait was shorter than a trip
		err = nil
	}
	c.allows(err)
	if h == nil {
		return
	}
	c.begins(h)
	if rand.IntN(3) == 0 && h.Relock(ctx) == nil {
		c.mu.Lock()
		c.token = max(c.token, h.Token())
		c.mu.Unlock()
		_ = h.Unlock(ctx) // if its reply is lost, the hold continues
	}
	if renewed && rand.IntN(10) == 0 { // a renewal comes meanwhile
		select {
		case <-h.(*rlock.Hold).Context().Done():
		case <-time.After(1500 * time.Millisecond):
		}
	}
	c.ends(h)
	switch err = h.Unlock(ctx); {
	case err == nil:
		c.passes.Add(1)
		if _, java := lock.(*thread); java {
			c.passesOfJava.Add(1)
		}
	case errors.Is(err, rlock.ErrLost):
		c.lost.Add(1)
	}
	c.allows(err)
}

// allows fails the test on an error that callers must not get.
func (c *crowd) allows(err error) {
	switch {
	case err == nil, isErr(context.Canceled, errRefused)(err), c.may != nil && c.may(err):
	default:
		c.Error(err)
	}
}

// passed waits until callers have held the lock n times. Two holders follow before a lease expires, also on a
// busy machine, and where lost replies leave places in the queue of a fair lock, which expire after 5 s.
func (c *crowd) passed(n int64) {
	c.Helper()
	const few = 2
	for n += c.passes.Load(); c.passes.Load() < n; {
		next := min(n, c.passes.Load()+few)
		NoError(c, c.soon("the next holders", func() error {
			if got := c.passes.Load(); got < next {
				return fmt.Errorf("%d passes, not yet %d", got, next)
			}
			return nil
		}))
	}
}

// isErr returns a function that reports whether an error is one of some.
func isErr(all ...error) func(err error) bool {
	return func(err error) bool {
		for _, one := range all {
			if errors.Is(err, one) {
				return true
			}
		}
		return false
	}
}

// A trouble is something that happens while a crowd takes a lock.
type trouble struct {
	only    string // the kind of lock, all if it is empty
	on      func(t *testing.T) *env
	from    string               // the processes of the callers
	patient bool                 // all callers wait without end
	may     func(err error) bool // which errors calls may return
	befalls func(c *crowd)       // returns when the trouble is over
	overlap time.Duration        // how long a caller may not notice that it has lost the lock
}

var troubles = map[string]trouble{
	"none": {on: func(t *testing.T) *env { return onRedis(t) }, from: "abc", befalls: func(c *crowd) {
		c.passed(int64(redistest.Rounds(c, 1000)))
	}},
	"replies and requests are lost, connections break": {
		on: func(t *testing.T) *env { return onRedis(t) }, from: "aop", may: isErr(rratelimiter.ErrNoAnswer),
		befalls: func(c *crowd) {
			stop := c.storm()
			for c.proxy.Swallowed()+c.proxy.Held() < int64(redistest.Rounds(c, 80)) {
				c.passed(20)
			}
			stop()
		},
	},
	"unlocked by force": {
		on: func(t *testing.T) *env { return onRedis(t) }, from: "aww", may: isErr(rlock.ErrLost),
		overlap: 2 * time.Second, // a renewal, and the lease ends later
		befalls: func(c *crowd) {
			other, forced := c.of(c.client(), c.name), int64(0)
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for range 300 {
				if must(other.ForceUnlock(c.Context()))(c) {
					forced++
				}
				<-tick.C
			}
			c.passed(1)
			if n := c.lost.Load(); n == 0 || n > forced {
				c.Errorf("%d holds were lost, and %d forced", n, forced)
			}
		},
	},
	"its slot moves round the cluster": {
		only: "fenced", on: func(t *testing.T) *env { return onCluster(t) }, from: "ab",
		may: isErr(rratelimiter.ErrNoAnswer), // of a short wait
		befalls: func(c *crowd) {
			for range 6 {
				c.passed(20)
				m := c.moves(c.name)
				time.Sleep(10 * time.Millisecond) // for calls in between
				m.Keys(1)
				time.Sleep(200 * time.Millisecond) // longer than the pauses of go-redis: TRYAGAIN
				m.Keys(1000)
				m.End()
			}
			c.passed(20)
		},
	},
	"planned failovers, in which clients talk to the old master for a while": {
		only: "plain", on: onSentinel, from: "ab", may: func(error) bool { return true }, overlap: patience,
		befalls: func(c *crowd) {
			for range redistest.Rounds(c, 2) {
				c.passed(10)
				c.group.Switch(c)
				c.passed(10)
			}
		},
	},
}

// A lock has one holder at a time, each with a greater token, whatever happens. In the end it is free, and
// the queue empty.
func TestOneHolder(t *testing.T) {
	t.Parallel()
	for what, x := range troubles {
		for name, of := range kinds {
			if x.only != "" && x.only != name {
				continue
			}
			t.Run(what+", "+name, func(t *testing.T) { x.strikes(newPlay(x.on(t), of)) })
		}
	}
}

// strikes makes a crowd take the lock of p during the trouble.
func (x trouble) strikes(p *play) {
	p.Helper()
	p.silence = time.Second // a lost reply must not hold the lock for as long as passed waits
	c := &crowd{play: p, trouble: x, since: map[hold]time.Time{}}
	working, stop := context.WithCancel(p.Context())
	var all sync.WaitGroup
	for letter := range strings.SplitSeq(x.from, "") {
		for i := range 4 {
			lock := c.caller(fmt.Sprint(letter, i)).lock
			all.Go(func() {
				for working.Err() == nil {
					c.takes(p.Context(), lock, letter == "w")
				}
			})
		}
	}
	x.befalls(c)
	stop()
	start := time.Now()
	all.Wait()
	lasted(p, "the last caller ended after", time.Since(start), 0, patience/2)
	lasted(p, "two callers held it at once", c.unseen, 0, x.overlap)
	// A late copy of a request that was refused may take the lock for a moment, until it is given back.
	NoError(p, c.tells("free; z1 locks; z1 unlocks; free"))
}

// storm breaks connections, loses replies and holds requests back until stop is called. It breaks them only
// after a pass, because a busy machine may need longer for a new connection than from one break to the next.
func (c *crowd) storm() (stop func()) {
	var scripts atomic.Int64
	done := make(chan struct{})
	often := func(each int64) func(args []string) bool {
		return func(args []string) bool { return IsScript(args) && scripts.Add(1)%each == 0 }
	}
	c.proxy.SwallowReplyTo(30, often(13))
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for last := int64(-1); ; {
			release := c.proxy.HoldNext(1, often(7))
			select {
			case <-tick.C:
				if passes := c.passes.Load(); passes > last {
					c.proxy.Cut()
					last = passes
				}
				time.AfterFunc(50*time.Millisecond, release)
			case <-done:
				release()
				return
			}
		}
	})
	return func() { close(done); all.Wait() }
}

// Several goroutines relock and unlock a Hold at once. The Hold and Redis agree how often the lock is held,
// and the last Unlock ends the Hold.
func TestHoldIsSafeForConcurrentUse(t *testing.T) {
	onBoth(t, func(s *env) {
		ctx := within(s)
		h := must(s.locks.FencedLock(s.name).Lock(ctx))(s)
		first := h.Token()
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for range 20 {
					if err := h.Relock(ctx); err != nil {
						s.Error(err)
					}
					_, _, _ = h.Token(), h.Err(), h.Context().Err()
					if err := h.Unlock(ctx); err != nil {
						s.Error(err)
					}
				}
			})
		}
		all.Wait()
		NoError(s, h.Err())
		if h.Token() <= first {
			s.Errorf("token %d, the first was %d", h.Token(), first)
		}
		for range 15 {
			NoError(s, h.Relock(ctx))
		}
		var ended atomic.Int64
		for range 20 {
			all.Go(func() {
				if err := h.Unlock(ctx); err != nil {
					ended.Add(1)
					WantErr(s, err, rlock.ErrNotHeld)
				}
			})
		}
		all.Wait()
		want(s, "unlocks too many", ended.Load(), 4)
		NoError(s, s.free())
	})
}

// Some end the hold while others lock it again. Whoever is first, nothing stays behind.
func TestRelockDuringUnlocksLeavesNothingBehind(t *testing.T) {
	s := onRedis(t)
	ctx := within(t)
	for range redistest.Rounds(t, 100) {
		h := must(s.locks.Lock(s.name).Lock(ctx))(t)
		var all sync.WaitGroup
		for range 3 {
			for _, call := range []func(context.Context) error{h.Relock, h.Unlock} {
				all.Go(func() {
					if err := call(ctx); err != nil {
						NoError(t, wanted(err, []string{"ErrNotHeld"}))
					}
				})
			}
		}
		all.Wait()
		for h.Err() == nil {
			NoError(t, h.Unlock(ctx))
		}
		want(t, "locks", s.look.Exists(ctx, s.name).Val(), 0)
	}
}
