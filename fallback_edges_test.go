package rratelimiter_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A hook may ask the limiter, and one that panics does not keep the circuit open.
func TestAHookThatMisbehaves(t *testing.T) {
	var l *rratelimiter.RateLimiter
	calls, panics := 0, true
	misbehaves := rratelimiter.WithHealthHook(func(rratelimiter.Health) {
		calls++
		for range 4 {
			_, _ = l.TryAcquire(context.Background(), 1, 0)
		}
		if panics {
			panic("hook")
		}
	})
	fallsBack(t, 100, rratelimiter.FallbackAllow, func(c *crowd) {
		l = c.RateLimiter
		for range 2 {
			open := c.gate.shut()
			for range 3 {
				func() {
					defer func() { _ = recover() }()
					_, _ = c.TryAcquire(c.Context(), 1, 0)
				}()
			}
			panics = false
			open()
			c.sleep(time.Minute)
			if c.client.Health().Degraded {
				t.Error("degraded for ever")
			}
		}
		if calls != 4 {
			t.Errorf("the hook was called %d times, want 4", calls)
		}
	}, misbehaves)
}

// All that Redis granted counts when it goes away: also the first callers, who come before
// the rate is learnt, and calls with another fallback.
func TestAllGrantsBeforeAnOutageCount(t *testing.T) {
	bubble(t, func(c *crowd) {
		noError(c.T, c.other().SetRate(c.Context(), overall, 100, time.Hour))
		var visits []func() visit
		for range 90 {
			visits = append(visits, c.comes(c.Context(), 1, 0))
		}
		for _, v := range visits {
			if !v().ok {
				t.Fatalf("%+v", v())
			}
		}
		took(c.T, c.WithFallback(rratelimiter.FallbackDeny), 7, 0, 0)
		c.sleep(time.Second)
		c.rdb.AddHook(hook(c.gate.process))
		end := c.outage()
		if n := takesAll(c.Context(), c.RateLimiter); n != 3 {
			t.Errorf("%d granted, want 3", n)
		}
		end()
		c.sleep(time.Minute)
		c.holds(100)
	}, rratelimiter.WithFallback(rratelimiter.FallbackLocal))
}

// Waiters in line whose permits are due while Redis is silent have their fallback.
func TestALineWithoutRedisIsFreed(t *testing.T) {
	fallsBack(t, 1, rratelimiter.FallbackAllow, func(c *crowd) {
		noError(c.T, c.SetRate(c.Context(), overall, 1, 3*time.Second))
		took(c.T, c.RateLimiter, 1, 0, 0)
		var visits []func() visit
		for range 30 {
			visits = append(visits, c.comes(c.Context(), 1, time.Hour))
		}
		open := c.gate.shut()
		c.sleep(5 * time.Second)
		for i, visit := range visits {
			if v := visit(); !v.ok || v.after > 4*time.Second {
				t.Fatalf("waiter %d: %+v; want granted when the budget after its time is spent", i, v)
			}
		}
		open()
		c.sleep(time.Minute)
	})
}

// An outage is noticed even when the share is used up before three calls have failed: then the
// probes are the only requests, and they count. Refusals by the share are decided without Redis.
func TestProbesNoticeAnOutage(t *testing.T) {
	var lost atomic.Int64
	counts := rratelimiter.WithHealthHook(func(h rratelimiter.Health) {
		if h.Degraded {
			lost.Add(1)
		}
	})
	fallsBack(t, 2, rratelimiter.FallbackLocal, func(c *crowd) {
		noError(c.T, c.SetRate(c.Context(), overall, 2, time.Hour))
		c.learns()
		open := c.gate.shut()
		for range 2 {
			c.decides(c.RateLimiter, 0, "true", budget)
		}
		for range 30 {
			c.decides(c.RateLimiter, 0, "false", 0)
			c.sleep(100 * time.Millisecond)
		}
		if h := c.client.Health(); !h.Degraded || h.Decided != 32 || lost.Load() != 1 {
			t.Errorf("%+v after 3s, the hook was called %d times; want degraded, 32 decided, 1 call",
				h, lost.Load())
		}
		open()
		c.sleep(4 * time.Second)
		if h := c.client.Health(); h.Degraded || h.Unbooked != 0 {
			t.Errorf("%+v; want well, and all booked", h)
		}
		c.holds(2)
	}, counts)
}

// A timeout that is shorter than the budget says nothing about Redis.
func TestShortTimeoutsOpenNoCircuit(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackDeny, func(c *crowd) {
		open := c.gate.shut()
		for range 5 {
			c.decides(c.RateLimiter, 5*time.Millisecond, "false", 5*time.Millisecond+late)
		}
		if c.client.Health().Degraded {
			t.Error("degraded by callers who do not wait")
		}
		open()
		c.sleep(time.Minute)
	})
}

// What is refused, and for how long, holds for the longest intervals and deadlines, too.
func TestFarEnds(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *crowd) {
		ctx, cancel := context.WithDeadline(c.Context(), time.Now().AddDate(200, 0, 0))
		defer cancel()
		noError(c.T, c.SetRate(c.Context(), overall, 1, math.MaxInt64/time.Millisecond*time.Millisecond))
		c.learns()
		open := c.gate.shut()
		start := time.Now()
		r, err := c.Allow(ctx, 1)
		if took := time.Since(start); err != nil || !r.Allowed || !r.Degraded || took != budget {
			t.Errorf("%+v, %v after %v", r, err, took)
		}
		r, err = c.Allow(ctx, 1)
		if err != nil || r.Allowed || r.RetryAfter < 365*24*time.Hour {
			t.Errorf("%+v, %v; want refused for ages", r, err)
		}
		c.decides(c.RateLimiter, time.Second, "false", time.Second)
		open()
		c.sleep(time.Minute)
	})
}

// Redis is back, and the rate is raised: what the Client does not know yet is no error, and
// its own rate it knows at once.
func TestARateThatIsRaisedAfterAnOutage(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *crowd) {
		end := c.outage()
		end()
		for c.client.Health().Degraded {
			c.sleep(10 * time.Millisecond)
		}
		noError(c.T, c.other().SetRate(c.Context(), overall, 1000, time.Second))
		if ok, err := c.TryAcquire(c.Context(), 50, 0); ok || err != nil {
			t.Errorf("%v, %v; want refused beyond the share that it knows", ok, err)
		}
		noError(c.T, c.SetRate(c.Context(), overall, 2000, time.Second))
		took(c.T, c.RateLimiter, 1500, 0, 0)
	})
}

// Permits that a Client granted by itself while Redis refused, and that Redis does not know
// of yet, count when Redis grants again.
func TestGrantsDuringRefusalsCount(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *crowd) {
		noError(c.T, c.SetRate(c.Context(), overall, 10, time.Hour))
		var refuses atomic.Bool
		refuses.Store(true)
		c.rdb.AddHook(answering(func(cmd redis.Cmder) bool {
			if refuses.Load() && cmd.Name() == "evalsha" {
				cmd.SetErr(redisError("OOM command not allowed"))
			}
			return refuses.Load() && cmd.Name() == "evalsha"
		}))
		if n := takesAll(c.Context(), c.RateLimiter); n != 10 {
			t.Errorf("%d granted, want 10", n)
		}
		refuses.Store(false)
		if n := takesAll(c.Context(), c.RateLimiter); n != 0 {
			t.Errorf("%d granted before the others are booked, want 0", n)
		}
		c.sleep(3 * time.Second)
		c.holds(10)
	})
}

// On a Ring only the limiters of a shard that is away fall back.
func TestACircuitForEachShardOfARing(t *testing.T) {
	live, dead := redistest.Start(t), redistest.Start(t)
	ring := redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{"live": live.Addr, "dead": dead.Addr}, HeartbeatFrequency: time.Hour,
	})
	c := rratelimiter.New(ring, rratelimiter.WithFallback(rratelimiter.FallbackDeny),
		rratelimiter.WithBudget(time.Second)) // more than a busy machine makes of a reply
	t.Cleanup(func() { _, _ = c.Close(), ring.Close() })
	limiters := map[bool][]*rratelimiter.RateLimiter{} // by whether they are on the dead shard
	for len(limiters[true]) < 50 || len(limiters[false]) < 50 {
		l := c.RateLimiter(redistest.Name(t))
		noError(t, l.SetRate(t.Context(), overall, 1000, time.Hour))
		on := dead.Admin().Exists(t.Context(), l.Name()).Val() == 1
		limiters[on] = append(limiters[on], l)
	}
	thaw := dead.Freeze(t)
	defer thaw()
	for i := range 50 {
		for gone, all := range limiters {
			r, err := all[i].Allow(t.Context(), 1)
			if err != nil || r.Degraded != gone {
				t.Fatalf("limiter %d, away %v: %+v, %v", i, gone, r, err)
			}
		}
	}
}

// A caller that waits while Redis comes back has its answer by its timeout.
func TestTheTimeoutIsKeptWhenRedisIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		rdb := redistest.MiniClient(t, m)
		var delay atomic.Int64
		rdb.AddHook(hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			time.Sleep(time.Duration(delay.Load()))
			return next(ctx, cmd)
		}))
		client := rratelimiter.New(rdb, rratelimiter.WithGoOnly(), rratelimiter.WithBudget(time.Second),
			rratelimiter.WithFallback(rratelimiter.FallbackLocal))
		defer client.Close()
		c := &crowd{t, client.RateLimiter("l"), client, &gate{}, m, rdb}
		noError(t, c.SetRate(t.Context(), overall, 1, time.Hour))
		took(t, c.RateLimiter, 1, 0, 0)
		c.sleep(time.Second)
		delay.Store(int64(time.Hour / 2))
		for range 3 {
			_, _ = c.WithFallback(rratelimiter.FallbackDeny).TryAcquire(t.Context(), 1, 0)
		}
		var visits []func() visit
		for i := range 50 {
			timeout := 5*time.Second + time.Duration(i)*50*time.Millisecond
			visits = append(visits, c.comes(t.Context(), 1, timeout))
		}
		delay.Store(int64(300 * time.Millisecond))
		c.sleep(time.Minute)
		for i, visit := range visits {
			timeout := 5*time.Second + time.Duration(i)*50*time.Millisecond
			if v := visit(); v.err != nil || v.after > timeout+50*time.Millisecond {
				t.Errorf("caller %d: %+v; want an answer by %v", i, v, timeout)
			}
		}
		c.sleep(2 * time.Hour)
	})
}
