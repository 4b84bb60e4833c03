package rratelimiter_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A caller waits for the last of its limiters, and takes its permits the moment they are
// there.
func TestAllWaitsForTheLast(t *testing.T) {
	groups(t, func(c *crowd, limit func(rate int64, d time.Duration) *rratelimiter.RateLimiter) {
		g := c.client.All(limit(1, time.Second), limit(2, 10*time.Second))
		start := time.Now()
		for i, want := range []time.Duration{0, time.Second, 10 * time.Second, 11 * time.Second} {
			noError(c.T, g.Acquire(c.Context(), 1))
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
	spec func(c *crowd, limit func(rate int64, d time.Duration) *rratelimiter.RateLimiter)) {
	t.Helper()
	bubble(t, func(c *crowd) {
		n := 0
		spec(c, func(rate int64, d time.Duration) *rratelimiter.RateLimiter {
			n++
			l := c.client.RateLimiter(fmt.Sprint("limit", n))
			noError(c.T, l.SetRate(c.Context(), overall, rate, d))
			return l
		})
	}, rratelimiter.WithGoOnly())
}

// Two groups that share a limiter, in another order, and single callers all get their
// permits: nobody waits for ever.
func TestGroupsThatShareALimiter(t *testing.T) {
	groups(t, func(c *crowd, limit func(rate int64, d time.Duration) *rratelimiter.RateLimiter) {
		one, two, three := limit(1, time.Second), limit(2, 3*time.Second), limit(1, time.Second)
		all := []interface {
			Acquire(ctx context.Context, permits int64) error
		}{c.client.All(one, two), c.client.All(two, one), c.client.All(three, one), one, two, three,
			c.client.All(one, two, three)}
		start := time.Now()
		var wait sync.WaitGroup
		for range 10 {
			for _, l := range all {
				wait.Go(func() { noError(c.T, l.Acquire(c.Context(), 1)) })
			}
		}
		wait.Wait()
		// 40 permits of two, at 2 in 3 s, are the most that anybody waits for.
		if took := time.Since(start); took > 75*time.Second {
			c.Errorf("took %v", took)
		}
		if n := c.client.Waiting(); n != 0 {
			c.Errorf("%d still wait", n)
		}
	})
}

// A group's caller that is refused by one limiter does not hold up those who want another
// one: one user without permits must not keep all from what they share.
func TestAUserWithoutPermitsHoldsUpNobody(t *testing.T) {
	groups(t, func(c *crowd, limit func(rate int64, d time.Duration) *rratelimiter.RateLimiter) {
		user, shared := limit(1, time.Hour), limit(10, time.Second)
		noError(c.T, user.Acquire(c.Context(), 1))
		done := make(chan error, 1)
		go func() { done <- c.client.All(user, shared).Acquire(c.Context(), 1) }()
		synctest.Wait()
		if n := c.client.Waiting(); n != 1 {
			c.Errorf("%d wait, want 1", n)
		}
		start := time.Now()
		for range 30 {
			noError(c.T, shared.Acquire(c.Context(), 1))
		}
		if took := time.Since(start); took != 2*time.Second {
			c.Errorf("30 permits at 10 a second took %v", took)
		}
		noError(c.T, <-done)
		if took := time.Since(start); took != time.Hour {
			c.Errorf("the user's after %v", took)
		}
	})
}

// In the line of the limiter that refuses them, groups and single callers are served first
// come, first served, whatever each wants.
func TestGroupsStandInLine(t *testing.T) {
	groups(t, func(c *crowd, limit func(rate int64, d time.Duration) *rratelimiter.RateLimiter) {
		scarce, plenty := limit(4, time.Second), limit(1000, time.Second)
		noError(c.T, scarce.Acquire(c.Context(), 4))
		g := c.client.All(plenty, scarce)
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
				noError(c.T, err)
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			}()
			synctest.Wait()
			c.sleep(time.Millisecond)
		}
		c.sleep(time.Minute)
		if len(order) != 12 {
			c.Fatalf("%v were served", order)
		}
		// Those that are due at one moment may be told in any order.
		for at, i := range order {
			if at-i > 2 || i-at > 2 {
				c.Errorf("served in the order %v", order)
			}
		}
	})
}

// A caller that leaves makes room in all lines, and what its call took goes back.
func TestAGroupsCallerLeaves(t *testing.T) {
	groups(t, func(c *crowd, limit func(rate int64, d time.Duration) *rratelimiter.RateLimiter) {
		scarce, other := limit(2, time.Minute), limit(5, time.Minute)
		noError(c.T, scarce.Acquire(c.Context(), 1))
		ctx, cancel := context.WithCancel(c.Context())
		gone, next := make(chan error, 1), make(chan error, 1)
		go func() { gone <- c.client.All(scarce, other).Amounts(2, 1).Acquire(ctx, 1) }()
		synctest.Wait()
		go func() { next <- scarce.Acquire(c.Context(), 1) }()
		synctest.Wait()
		start := time.Now()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			c.Errorf("%v", err)
		}
		noError(c.T, <-next)
		if took := time.Since(start); took != 0 {
			c.Errorf("the one behind it waited for %v", took)
		}
		if n := c.client.Waiting(); n != 0 {
			c.Errorf("%d wait", n)
		}
	})
}

// A permit that is given back, or another rate, wakes those who wait.
func TestAGroupsCallerIsWoken(t *testing.T) {
	groups(t, func(c *crowd, limit func(rate int64, d time.Duration) *rratelimiter.RateLimiter) {
		one, two := limit(1, time.Hour), limit(1, time.Hour)
		noError(c.T, c.client.All(one, two).Acquire(c.Context(), 1))
		done := make(chan error, 1)
		start := time.Now()
		go func() { done <- c.client.All(one, two).Acquire(c.Context(), 1) }()
		c.sleep(time.Minute)
		noError(c.T, one.Release(c.Context(), 1))
		c.sleep(time.Minute)
		other := rratelimiter.New(redistest.MiniClient(c.T, c.server))
		defer other.Close()
		noError(c.T, other.RateLimiter(two.Name()).SetRate(c.Context(), overall, 2, time.Hour))
		noError(c.T, <-done)
		if took := time.Since(start); took != 2*time.Minute {
			c.Errorf("woken after %v", took)
		}
	})
}

// Close ends those who wait at once.
func TestAGroupsCallerAndClose(t *testing.T) {
	groups(t, func(c *crowd, limit func(rate int64, d time.Duration) *rratelimiter.RateLimiter) {
		one, two := limit(1, time.Hour), limit(1, time.Hour)
		g := c.client.All(one, two)
		noError(c.T, g.Acquire(c.Context(), 1))
		done := make(chan error, 1)
		go func() { done <- g.Acquire(c.Context(), 1) }()
		synctest.Wait()
		noError(c.T, c.client.Close())
		if err := <-done; !errors.Is(err, rratelimiter.ErrClosed) {
			c.Errorf("%v", err)
		}
		if err := g.Acquire(c.Context(), 1); !errors.Is(err, rratelimiter.ErrClosed) {
			c.Errorf("%v", err)
		}
	})
}
