package groups_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A caller waits for the last of its limiters, and takes its permits the moment they are
// there.
func TestAllWaitsForTheLast(t *testing.T) {
	groups(t, func(c *Limiter, limit func(rate int64, d time.Duration) *rratelimiter.RateLimiter) {
		g := c.Client.All(limit(1, time.Second), limit(2, 10*time.Second))
		start := time.Now()
		for i, want := range []time.Duration{0, time.Second, 10 * time.Second, 11 * time.Second} {
			NoError(c.T, g.Acquire(c.Context(), 1))
			if took := time.Since(start); took != want {
				c.Errorf("permit %d after %v, want %v", i, took, want)
			}
		}
		ok, err := g.TryAcquire(c.Context(), 1, 8*time.Second)
		if took := time.Since(start); ok || err != nil || took != 19*time.Second {
			c.Errorf("%v, %v after %v; want false at its timeout", ok, err, took)
		}
	})
}

// groups runs a spec in fake time, for Clients of Go alone.
func groups(t *testing.T,
	spec func(c *Limiter, limit func(rate int64, d time.Duration) *rratelimiter.RateLimiter)) {
	t.Helper()
	Bubble(t, func(c *Limiter) {
		n := 0
		spec(c, func(rate int64, d time.Duration) *rratelimiter.RateLimiter {
			n++
			l := c.Client.RateLimiter(fmt.Sprint("limit", n))
			NoError(c.T, l.SetRate(c.Context(), Overall, rate, d))
			return l
		})
	}, rratelimiter.WithGoOnly())
}

// Two groups that share a limiter, in another order, and single callers all get their
// permits: no caller waits for ever.
func TestGroupsThatShareALimiterAreAllServed(t *testing.T) {
	groups(t, func(c *Limiter, limit func(rate int64, d time.Duration) *rratelimiter.RateLimiter) {
		one, two, three := limit(1, time.Second), limit(2, 3*time.Second), limit(1, time.Second)
		all := []interface {
			Acquire(ctx context.Context, permits int64) error
		}{c.Client.All(one, two), c.Client.All(two, one), c.Client.All(three, one), one, two, three,
			c.Client.All(one, two, three)}
		start := time.Now()
		var wait sync.WaitGroup
		for range 10 {
			for _, l := range all {
				wait.Go(func() { NoError(c.T, l.Acquire(c.Context(), 1)) })
			}
		}
		wait.Wait()
		// 40 permits of two, at 2 in 3 s, are the most that a caller waits for.
		if took := time.Since(start); took > 75*time.Second {
			c.Errorf("took %v", took)
		}
		if n := c.Client.Waiting(); n != 0 {
			c.Errorf("%d still wait", n)
		}
	})
}

// A group's caller that is refused by one limiter does not hold up callers that want another
// one: one user without permits must not keep all from what they share.
func TestAUserWithoutPermitsDelaysNoOther(t *testing.T) {
	groups(t, func(c *Limiter, limit func(rate int64, d time.Duration) *rratelimiter.RateLimiter) {
		user, shared := limit(1, time.Hour), limit(10, time.Second)
		NoError(c.T, user.Acquire(c.Context(), 1))
		done := make(chan error, 1)
		go func() { done <- c.Client.All(user, shared).Acquire(c.Context(), 1) }()
		synctest.Wait()
		if n := c.Client.Waiting(); n != 1 {
			c.Errorf("%d wait, want 1", n)
		}
		start := time.Now()
		for range 30 {
			NoError(c.T, shared.Acquire(c.Context(), 1))
		}
		if took := time.Since(start); took != 2*time.Second {
			c.Errorf("30 permits at 10 a second took %v", took)
		}
		NoError(c.T, <-done)
		if took := time.Since(start); took != time.Hour {
			c.Errorf("the user's after %v", took)
		}
	})
}

// In the line of the limiter that refuses them, groups and single callers are served first
// come, first served, whatever each wants.
func TestGroupsStandInLine(t *testing.T) {
	groups(t, func(c *Limiter, limit func(rate int64, d time.Duration) *rratelimiter.RateLimiter) {
		scarce, plenty := limit(4, time.Second), limit(1000, time.Second)
		NoError(c.T, scarce.Acquire(c.Context(), 4))
		g := c.Client.All(plenty, scarce)
		var mu sync.Mutex
		var order []int
		for i := range 12 {
			go func() {
				var err error
				if i%3 == 0 {
					err = g.Amounts(1, 3).Acquire(c.Context(), 1)
				} else {
					err = scarce.Acquire(c.Context(), 1+int64(i%2))
				}
				NoError(c.T, err)
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			}()
			synctest.Wait()
			c.Sleep(time.Millisecond)
		}
		c.Sleep(time.Minute)
		if len(order) != 12 {
			c.Fatalf("%v were served", order)
		}
		// Those that are due at one moment may be served in any order.
		for at, i := range order {
			if at-i > 2 || i-at > 2 {
				c.Errorf("served in the order %v", order)
			}
		}
	})
}

// A caller that leaves makes room in all lines, and what its call took goes back.
func TestAGroupsCallerWhoLeavesMakesRoom(t *testing.T) {
	groups(t, func(c *Limiter, limit func(rate int64, d time.Duration) *rratelimiter.RateLimiter) {
		scarce, other := limit(2, time.Minute), limit(5, time.Minute)
		NoError(c.T, scarce.Acquire(c.Context(), 1))
		ctx, cancel := context.WithCancel(c.Context())
		gone, next := make(chan error, 1), make(chan error, 1)
		go func() { gone <- c.Client.All(scarce, other).Amounts(2, 1).Acquire(ctx, 1) }()
		synctest.Wait()
		go func() { next <- scarce.Acquire(c.Context(), 1) }()
		synctest.Wait()
		start := time.Now()
		cancel()
		WantErr(c, <-gone, context.Canceled)
		NoError(c.T, <-next)
		if took := time.Since(start); took != 0 {
			c.Errorf("the one behind it waited for %v", took)
		}
		if n := c.Client.Waiting(); n != 0 {
			c.Errorf("%d wait", n)
		}
	})
}

// A permit that is given back, or another rate, wakes waiting callers.
func TestAGroupsCallerIsWoken(t *testing.T) {
	groups(t, func(c *Limiter, limit func(rate int64, d time.Duration) *rratelimiter.RateLimiter) {
		one, two := limit(1, time.Hour), limit(1, time.Hour)
		NoError(c.T, c.Client.All(one, two).Acquire(c.Context(), 1))
		done := make(chan error, 1)
		start := time.Now()
		go func() { done <- c.Client.All(one, two).Acquire(c.Context(), 1) }()
		c.Sleep(time.Minute)
		NoError(c.T, one.Release(c.Context(), 1))
		c.Sleep(time.Minute)
		other := rratelimiter.New(redistest.MiniClient(c.T, c.Mini))
		defer other.Close()
		NoError(c.T, other.RateLimiter(two.Name()).SetRate(c.Context(), Overall, 2, time.Hour))
		NoError(c.T, <-done)
		if took := time.Since(start); took != 2*time.Minute {
			c.Errorf("woken after %v", took)
		}
	})
}

// Close ends waiting callers at once.
func TestCloseEndsAGroupsCaller(t *testing.T) {
	groups(t, func(c *Limiter, limit func(rate int64, d time.Duration) *rratelimiter.RateLimiter) {
		one, two := limit(1, time.Hour), limit(1, time.Hour)
		g := c.Client.All(one, two)
		NoError(c.T, g.Acquire(c.Context(), 1))
		done := make(chan error, 1)
		go func() { done <- g.Acquire(c.Context(), 1) }()
		synctest.Wait()
		NoError(c.T, c.Client.Close())
		WantErr(c, <-done, rratelimiter.ErrClosed)
		WantErr(c, g.Acquire(c.Context(), 1), rratelimiter.ErrClosed)
	})
}

// A caller whose timeout passes is refused if others stand ahead of it: it does not overtake
// them.
func TestAGroupsTimeoutOvertakesNoCaller(t *testing.T) {
	groups(t, func(c *Limiter, limit func(rate int64, d time.Duration) *rratelimiter.RateLimiter) {
		l := limit(10, time.Second)
		for range 10 { // the permits come back one by one
			NoError(c.T, l.Acquire(c.Context(), 1))
			time.Sleep(90 * time.Millisecond)
		}
		first := make(chan time.Time, 1)
		start := time.Now()
		go func() {
			NoError(c.T, l.Acquire(c.Context(), 10))
			first <- time.Now()
		}()
		synctest.Wait()
		for served := false; !served; {
			ok, err := c.Client.All(l).TryAcquire(c.Context(), 1, 20*time.Millisecond)
			NoError(c.T, err)
			select {
			case at := <-first:
				served = true
				if took := at.Sub(start); took > time.Second {
					c.Errorf("the first in line after %v", took)
				}
			default:
				if ok {
					c.Fatal("one behind the first in line was served")
				}
			}
		}
	})
}

// Two limiters that other callers use all the time, out of step: a group gets its turn.
func TestAGroupOfTwoScarceLimitsGetsItsTurn(t *testing.T) {
	groups(t, func(c *Limiter, limit func(rate int64, d time.Duration) *rratelimiter.RateLimiter) {
		const every = 500 * time.Millisecond
		ctx, cancel := context.WithCancel(c.Context())
		var all sync.WaitGroup
		both := []*rratelimiter.RateLimiter{limit(1, every), limit(1, every)}
		for _, l := range both {
			time.Sleep(every / 2)
			for range 2 {
				all.Go(func() {
					for l.Acquire(ctx, 1) == nil {
					}
				})
			}
		}
		for range 5 {
			start := time.Now()
			NoError(c.T, c.Client.All(both...).Acquire(c.Context(), 1))
			if took := time.Since(start); took > 10*every {
				c.Errorf("a group waited for %v", took)
			}
		}
		cancel()
		all.Wait()
	})
}

// Single callers behind a group's caller cost Redis little, and return in time, also that
// they want more than the rate.
func TestSingleCallersBehindAGroupAreToldInTime(t *testing.T) {
	groups(t, func(c *Limiter, limit func(rate int64, d time.Duration) *rratelimiter.RateLimiter) {
		l := limit(10, time.Minute)
		ctx, cancel := context.WithCancel(c.Context())
		NoError(c.T, c.Client.All(l).Acquire(ctx, 10))
		go func() { _ = c.Client.All(l).Acquire(ctx, 10) }()
		synctest.Wait()
		seen := Failing(c.RDB)
		for range 20 {
			start := time.Now()
			ok, err := l.TryAcquire(ctx, 1, 20*time.Millisecond)
			if took := time.Since(start); ok || err != nil || took != 20*time.Millisecond {
				c.Errorf("%v, %v after %v", ok, err, took)
			}
		}
		for range 100 {
			go func() { _ = l.Acquire(ctx, 1) }()
			synctest.Wait()
		}
		if n := len(seen.Sent); n > 2*20 {
			c.Errorf("%d commands for 20 whose timeout passed and 100 that wait", n)
		}
		WantErr(c, l.Acquire(ctx, 11), rratelimiter.ErrPermitsExceedRate)
		cancel()
		synctest.Wait()
	})
}
