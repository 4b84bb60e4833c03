package rratelimiter_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
)

// A call whose reply is lost is sent again and charged once, in each limiter.
func TestAllIsChargedOnce(t *testing.T) {
	n := newLine(t, 10, time.Hour)
	tr := n.newTrio(10, 10, 10)
	n.want(tr.Acquire(t.Context(), 1)) // the script is known
	n.proxy.SwallowReplyTo(1, isScript)
	n.want(tr.Amounts(1, 2, 3).Acquire(t.Context(), 1))
	if n.proxy.Swallowed() != 1 {
		t.Fatal("no reply was lost")
	}
	tr.left(8, 7, 6)
}

// A caller that has left holds nothing: what its call took goes back to each limiter.
func TestWhatAGroupTookGoesBack(t *testing.T) {
	for name, leaves := range map[string]func(n *line, tr *trio) error{
		"timeout": func(n *line, tr *trio) error {
			return errOf(tr.TryAcquire(n.Context(), 2, 100*time.Millisecond))
		},
		"context": func(n *line, tr *trio) error {
			ctx, cancel := context.WithTimeout(n.Context(), 100*time.Millisecond)
			defer cancel()
			err := tr.Acquire(ctx, 2)
			if !errors.Is(err, context.DeadlineExceeded) {
				n.Errorf("%v", err)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newLine(t, 10, time.Hour)
			tr := n.newTrio(10, 10, 10)
			n.want(tr.Acquire(t.Context(), 1))
			n.proxy.Delay(500 * time.Millisecond)
			if err := leaves(n, tr); err == nil {
				t.Fatal("no error though the reply came later")
			}
			n.proxy.Delay(0)
			until(t, func() bool {
				sum := int64(0)
				for _, l := range tr.each {
					r, err := l.Peek(t.Context())
					n.want(err)
					sum += r.Remaining
				}
				return sum == 27
			})
			n.now += 1000
			tr.left(10, 9, 9)
			n.want(tr.Acquire(t.Context(), 1)) // the session is of use again
			tr.left(9, 8, 8)
		})
	}
}

// A late copy of a call that was withdrawn takes nothing.
func TestALateCopyOfAGroupsCall(t *testing.T) {
	n := newLine(t, 10, time.Hour, sendsOnce)
	tr := n.newTrio(10, 10, 10)
	n.want(tr.Acquire(t.Context(), 1))
	ctx, cancel := context.WithCancel(t.Context())
	copied := n.holds(func() error { return tr.Acquire(ctx, 2) })
	cancel()
	if err := <-copied.told; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	n.proxy.Cut() // it is withdrawn from each limiter, before it has arrived
	until(t, func() bool { return n.scriptsRun() >= copied.ran+int64(len(tr.each)) })
	copied.arrives()
	n.now += 1000
	until(t, func() bool {
		for _, l := range tr.each {
			if r, err := l.Peek(t.Context()); err != nil || r.Limit-r.Remaining > 1 {
				return false
			}
		}
		return true
	})
	tr.left(10, 9, 9)
}

// Where Redis is away, a Group falls back as its first limiter does, all or none, and what
// it took is booked.
func TestAGroupFallsBack(t *testing.T) {
	for fallback, want := range map[rratelimiter.Fallback]int{
		rratelimiter.FallbackAllow: 9, rratelimiter.FallbackDeny: 0, rratelimiter.FallbackLocal: 3,
	} {
		bubble(t, func(c *crowd) {
			c.rdb.AddHook(hook(c.gate.process))
			one, two := c.client.RateLimiter("one"), c.client.RateLimiter("two")
			noError(c.T, one.SetRate(c.Context(), overall, 5, time.Minute))
			noError(c.T, two.SetRate(c.Context(), overall, 9, time.Minute))
			g := c.client.All(one, two).Amounts(1, 3).WithFallback(fallback)
			open := c.gate.shut()
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
			c.sleep(20 * time.Second)
			if fallback != rratelimiter.FallbackLocal {
				return
			}
			r, err := c.client.All(one, two).Allow(c.Context(), 1)
			if err != nil || r.Degraded || r.Allowed || r.Each[0].Remaining != 2 || r.Each[1].Remaining != 0 {
				c.Errorf("after it: %+v, %v; want all booked", r, err)
			}
		}, rratelimiter.WithFallback(rratelimiter.FallbackLocal))
	}
}

// A server stops: each of many callers is told by its timeout or the end of its context.
// When it goes on, what they may have taken goes back, and nothing is left behind.
func TestGroupsAndAServerThatStops(t *testing.T) {
	const patience = 300 * time.Millisecond
	n := newLine(t, 10, time.Hour)
	tr := n.newTrio(10, 10, 10)
	n.want(tr.Acquire(t.Context(), 1))
	for _, ask := range []func() error{
		func() error { return errOf(tr.TryAcquire(t.Context(), 2, patience)) },
		func() error {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			return tr.Acquire(ctx, 2)
		},
	} {
		n.proxy.Delay(time.Second)
		var all sync.WaitGroup
		start := time.Now()
		for range 200 {
			all.Go(func() {
				err := ask()
				if !errors.Is(err, rratelimiter.ErrNoAnswer) && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v", err)
				}
				if took := time.Since(start); took < patience || took > patience+slack {
					t.Errorf("told after %v", took)
				}
			})
		}
		all.Wait()
		n.proxy.Delay(0)
		until(t, func() bool {
			r, err := tr.Amounts(1, 1, 1).Allow(t.Context(), 1)
			if err == nil && r.Allowed {
				n.want(tr.Release(t.Context(), 1))
			}
			return err == nil && r.Remaining >= 8
		})
	}
	n.now += 1000
	since := time.Now() // it is so since then: what a late reply tells of goes back after it
	until(t, func() bool {
		for i, want := range []int64{10, 9, 9} {
			if r, err := tr.each[i].Peek(t.Context()); err != nil || r.Remaining != want {
				since = time.Now()
				return false
			}
		}
		return time.Since(since) > 2*time.Second
	})
	tr.left(10, 9, 9)
}
