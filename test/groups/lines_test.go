package groups_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A caller waits for the last of its limiters, and takes its permits the moment they are there.
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

// If limiters refuse in turn, because other callers take the permit of one while the other one has none, a
// group reserves its place at both, for twice as long each time, from 250 ms up to a minute.
func TestAGroupReservesItsPlaceForLongerEachTime(t *testing.T) {
	const every, never = 10 * time.Minute, 0
	for apart, intervals := range map[time.Duration]int{ // each but the first has two refusals
		500 * time.Millisecond: 3, 501 * time.Millisecond: 4,
		time.Minute: 7, time.Minute + time.Millisecond: never,
	} {
		t.Run(apart.String(), func(t *testing.T) {
			groups(t, func(c *Limiter, limit func(rate int64, d time.Duration) *rratelimiter.RateLimiter) {
				ctx, cancel := context.WithCancel(c.Context())
				var all sync.WaitGroup
				both := []*rratelimiter.RateLimiter{limit(1, every), limit(1, every)}
				group, start, served := c.Client.All(both...), time.Now(), never
				for _, l := range both {
					all.Go(func() {
						for l.Acquire(ctx, 1) == nil {
						}
					})
					synctest.Wait()
					if l == both[0] {
						all.Go(func() {
							if group.Acquire(ctx, 1) == nil {
								served = int(time.Since(start) / every)
							}
						})
					}
					c.Sleep(apart)
				}
				c.Sleep(12 * every)
				cancel()
				if all.Wait(); served != intervals {
					c.Errorf("it had its turn after %d intervals, want %d", served, intervals)
				}
			})
		})
	}
}
