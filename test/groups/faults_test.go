package groups_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// Where Redis is away, a Group falls back as its first limiter does, all or none, and what it took is booked.
func TestAGroupFallsBackAsItsFirstLimiter(t *testing.T) {
	for fallback, want := range map[rratelimiter.Fallback]int{
		rratelimiter.FallbackAllow: 9, rratelimiter.FallbackDeny: 0, rratelimiter.FallbackLocal: 3,
	} {
		Bubble(t, func(c *Limiter) {
			c.RDB.AddHook(Hook(c.Gate.Process))
			one, two := c.Client.RateLimiter("one"), c.Client.RateLimiter("two")
			NoError(c.T, one.SetRate(c.Context(), Overall, 5, time.Minute))
			NoError(c.T, two.SetRate(c.Context(), Overall, 9, time.Minute))
			g := c.Client.All(one, two).Amounts(1, 3).WithFallback(fallback)
			open := c.Gate.Shut()
			got := 0
			for range 9 {
				r, err := g.Allow(c.Context(), 1)
				if err != nil || !r.Degraded {
					c.Fatalf("%d: %+v, %v", fallback, r, err)
				}
				if r.Allowed {
					got++
				}
			}
			if got != want {
				c.Errorf("%d: %d granted, want %d", fallback, got, want)
			}
			open()
			c.Sleep(20 * time.Second)
			if fallback != rratelimiter.FallbackLocal {
				return
			}
			r, err := c.Client.All(one, two).Allow(c.Context(), 1)
			if err != nil || r.Degraded || r.Allowed || r.Each[0].Remaining != 2 || r.Each[1].Remaining != 0 {
				c.Errorf("after it: %+v, %v; want all booked", r, err)
			}
		}, rratelimiter.WithFallback(rratelimiter.FallbackLocal))
	}
}

// A server stops: each of many callers returns by its timeout or the end of its context.
// When it goes on, what they may have taken goes back, and nothing is left behind.
func TestGroupsFailInTimeWhenAServerStops(t *testing.T) {
	const patience = 300 * time.Millisecond
	n := NewProxied(t, 10, time.Hour)
	tr := newTrio(n.Bench, 10, 10, 10)
	n.Want(tr.Acquire(t.Context(), 1))
	for _, ask := range []func() error{
		func() error { return ErrOf(tr.TryAcquire(t.Context(), 2, patience)) },
		func() error {
			ctx := TimeLimit(t, patience)
			return tr.Acquire(ctx, 2)
		},
	} {
		n.Proxy.Delay(time.Second)
		var all sync.WaitGroup
		start := time.Now()
		for range 200 {
			all.Go(func() {
				err := ask()
				if !errors.Is(err, rratelimiter.ErrNoAnswer) && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v", err)
				}
				if took := time.Since(start); took < patience || took > patience+Slack {
					t.Errorf("an error after %v", took)
				}
			})
		}
		all.Wait()
		n.Proxy.Delay(0)
		Until(t, func() bool {
			r, err := tr.Amounts(1, 1, 1).Allow(t.Context(), 1)
			if err == nil && r.Allowed {
				n.Want(tr.Release(t.Context(), 1))
			}
			return err == nil && r.Remaining >= 8
		})
	}
	since := time.Now() // when this began: late replies cause withdrawals afterwards
	Until(t, func() bool {
		for i, want := range []int64{9, 9, 9} {
			if r, err := tr.each[i].Peek(t.Context()); err != nil || r.Remaining != want {
				since = time.Now()
				return false
			}
		}
		return time.Since(since) > 2*time.Second
	})
	tr.left(9, 9, 9)
}
