package fallback_test

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// A hook may ask the limiter, and one that panics does not keep the circuit open.
func TestAHookThatMisbehavesKeepsNoCircuitOpen(t *testing.T) {
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
	fallsBack(t, 100, rratelimiter.FallbackAllow, func(c *Limiter) {
		l = c.RateLimiter
		for range 2 {
			open := c.Gate.Shut()
			for range 3 {
				func() {
					defer func() { _ = recover() }()
					_, _ = c.TryAcquire(c.Context(), 1, 0)
				}()
			}
			panics = false
			open()
			c.Sleep(time.Minute)
			if c.Client.Health().Degraded {
				t.Error("degraded for ever")
			}
		}
		if calls != 4 {
			t.Errorf("the hook was called %d times, want 4", calls)
		}
	}, misbehaves)
}

// All that Redis granted counts when it goes away: also the first callers, which come before
// the rate is learnt, and calls with another fallback.
func TestAllGrantsBeforeAnOutageCount(t *testing.T) {
	Bubble(t, func(c *Limiter) {
		NoError(c.T, c.Other().SetRate(c.Context(), Overall, 100, time.Hour))
		var visits []func() Visit
		for range 90 {
			visits = append(visits, c.Comes(c.Context(), 1, 0))
		}
		for _, v := range visits {
			if !v().OK {
				t.Fatalf("%+v", v())
			}
		}
		c.Wrap(c.WithFallback(rratelimiter.FallbackDeny)).Took(7, 0, 0)
		c.Sleep(time.Second)
		c.RDB.AddHook(Hook(c.Gate.Process))
		end := outage(c)
		if n := TakeAll(c, c.RateLimiter); n != 3 {
			t.Errorf("%d granted, want 3", n)
		}
		end()
		c.Sleep(time.Minute)
		c.HasTaken(100)
	}, rratelimiter.WithFallback(rratelimiter.FallbackLocal))
}

// Waiters in line whose permits are due while Redis is silent have their fallback.
func TestALineWithoutRedisIsFreed(t *testing.T) {
	fallsBack(t, 1, rratelimiter.FallbackAllow, func(c *Limiter) {
		NoError(c.T, c.SetRate(c.Context(), Overall, 1, 3*time.Second))
		c.Took(1, 0, 0)
		var visits []func() Visit
		for range 30 {
			visits = append(visits, c.Comes(c.Context(), 1, time.Hour))
		}
		open := c.Gate.Shut()
		c.Sleep(5 * time.Second)
		for i, visit := range visits {
			if v := visit(); !v.OK || v.After > 4*time.Second {
				t.Fatalf("waiter %d: %+v; want granted when the budget after its time is spent", i, v)
			}
		}
		open()
		c.Sleep(time.Minute)
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
	fallsBack(t, 2, rratelimiter.FallbackLocal, func(c *Limiter) {
		NoError(c.T, c.SetRate(c.Context(), Overall, 2, time.Hour))
		learns(c)
		open := c.Gate.Shut()
		for range 2 {
			decides(c, c.RateLimiter, 0, "true", budget)
		}
		for range 30 {
			decides(c, c.RateLimiter, 0, "false", 0)
			c.Sleep(100 * time.Millisecond)
		}
		if h := c.Client.Health(); !h.Degraded || h.Decided != 32 || lost.Load() != 1 {
			t.Errorf("%+v after 3s, the hook was called %d times; want degraded, 32 decided, 1 call",
				h, lost.Load())
		}
		open()
		c.Sleep(4 * time.Second)
		if h := c.Client.Health(); h.Degraded || h.Unbooked != 0 {
			t.Errorf("%+v; want well, and all booked", h)
		}
		c.HasTaken(2)
	}, counts)
}

// A timeout that is shorter than the budget says nothing about Redis.
func TestShortTimeoutsOpenNoCircuit(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackDeny, func(c *Limiter) {
		open := c.Gate.Shut()
		for range 5 {
			decides(c, c.RateLimiter, 5*time.Millisecond, "false", 5*time.Millisecond+Late)
		}
		if c.Client.Health().Degraded {
			t.Error("degraded by callers that do not wait")
		}
		open()
		c.Sleep(time.Minute)
	})
}

// Refusals and their waits are also right for the longest intervals and deadlines.
func TestRefusalsHoldForTheLongestIntervals(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *Limiter) {
		ctx, cancel := context.WithDeadline(c.Context(), time.Now().AddDate(200, 0, 0))
		defer cancel()
		NoError(c.T, c.SetRate(c.Context(), Overall, 1, math.MaxInt64/time.Millisecond*time.Millisecond))
		learns(c)
		open := c.Gate.Shut()
		start := time.Now()
		r, err := c.Allow(ctx, 1)
		if took := time.Since(start); err != nil || !r.Allowed || !r.Degraded || took != budget {
			t.Errorf("%+v, %v after %v", r, err, took)
		}
		r, err = c.Allow(ctx, 1)
		if err != nil || r.Allowed || r.RetryAfter < 365*24*time.Hour {
			t.Errorf("%+v, %v; want refused for ages", r, err)
		}
		decides(c, c.RateLimiter, time.Second, "false", time.Second)
		open()
		c.Sleep(time.Minute)
	})
}

// Redis is back, and the rate is raised: what the Client does not know yet is no error, and
// its own rate it knows at once.
func TestARateThatIsRaisedAfterAnOutageIsNoError(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *Limiter) {
		end := outage(c)
		end()
		for c.Client.Health().Degraded {
			c.Sleep(10 * time.Millisecond)
		}
		NoError(c.T, c.Other().SetRate(c.Context(), Overall, 1000, time.Second))
		NoError(t, No(c.TryAcquire(c.Context(), 50, 0)))
		NoError(c.T, c.SetRate(c.Context(), Overall, 2000, time.Second))
		c.Took(1500, 0, 0)
	})
}

// Permits that a Client granted alone while Redis refused, and that Redis does not know
// of yet, count when Redis grants again.
func TestGrantsDuringRefusalsCount(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *Limiter) {
		NoError(c.T, c.SetRate(c.Context(), Overall, 10, time.Hour))
		var refuses atomic.Bool
		refuses.Store(true)
		c.RDB.AddHook(Refusing("OOM command not allowed", &refuses))
		if n := TakeAll(c, c.RateLimiter); n != 10 {
			t.Errorf("%d granted, want 10", n)
		}
		refuses.Store(false)
		if n := TakeAll(c, c.RateLimiter); n != 0 {
			t.Errorf("%d granted before the rest is booked, want 0", n)
		}
		c.Sleep(3 * time.Second)
		c.HasTaken(10)
	})
}

// On a Ring only the limiters of a shard that is away fall back.
func TestEachShardOfARingHasItsCircuit(t *testing.T) {
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
		NoError(t, l.SetRate(t.Context(), Overall, 1000, time.Hour))
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

// A caller that waits while Redis comes back returns by its timeout.
func TestTheTimeoutIsKeptWhenRedisIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		rdb := redistest.MiniClient(t, m)
		var delay atomic.Int64
		rdb.AddHook(Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			time.Sleep(time.Duration(delay.Load()))
			return next(ctx, cmd)
		}))
		client := rratelimiter.New(rdb, rratelimiter.WithGoOnly(), rratelimiter.WithBudget(time.Second),
			rratelimiter.WithFallback(rratelimiter.FallbackLocal))
		defer client.Close()
		b := &Bench{T: t, RDB: rdb, Client: client, Mini: m}
		c := b.Wrap(client.RateLimiter("l"))
		NoError(t, c.SetRate(t.Context(), Overall, 1, time.Hour))
		c.Took(1, 0, 0)
		c.Sleep(time.Second)
		delay.Store(int64(time.Hour / 2))
		for range 3 {
			_, _ = c.WithFallback(rratelimiter.FallbackDeny).TryAcquire(t.Context(), 1, 0)
		}
		var visits []func() Visit
		for i := range 50 {
			timeout := 5*time.Second + time.Duration(i)*50*time.Millisecond
			visits = append(visits, c.Comes(t.Context(), 1, timeout))
		}
		delay.Store(int64(300 * time.Millisecond))
		c.Sleep(time.Minute)
		for i, visit := range visits {
			timeout := 5*time.Second + time.Duration(i)*50*time.Millisecond
			if v := visit(); v.Err != nil || v.After > timeout+50*time.Millisecond {
				t.Errorf("caller %d: %+v; want a result by %v", i, v, timeout)
			}
		}
		c.Sleep(2 * time.Hour)
	})
}

// Redis was out of memory, and has memory again: another Client may still have grants to book, so this one
// takes no more than its share for a while, though its circuit was never open.
func TestAClientKeepsToItsShareAfterRefusals(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *Limiter) {
		NoError(c.T, c.SetRate(c.Context(), Overall, 10, 20*time.Second))
		learns(c)
		var refuses atomic.Bool
		c.RDB.AddHook(Refusing("OOM command not allowed", &refuses))
		refuses.Store(true)
		c.Took(2, 0, 0)
		refuses.Store(false)
		c.Sleep(2 * time.Second) // all is booked
		if n := TakeAll(c, c.RateLimiter); n != 3 {
			t.Errorf("%d granted, want the rest of the share, 3", n)
		}
		c.Sleep(4 * time.Second)
		if n := TakeAll(c, c.RateLimiter); n != 5 {
			t.Errorf("%d granted after that, want 5", n)
		}
	}, rratelimiter.WithLocalShare(0.5))
}

// A Client with grants of many limiters to book does not repeat all bookings while Redis refuses them. When
// Redis has memory again, all are booked at once.
func TestRefusedBookingsAreFew(t *testing.T) {
	const limiters, calls = 500, 2 // scripts of a booking
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *Limiter) {
		keyed := c.Client.Keyed("many", 10, time.Hour)
		sent := c.CountScripts()
		var refuses atomic.Bool
		refuses.Store(true)
		c.RDB.AddHook(Refusing("OOM command not allowed", &refuses))
		for i := range limiters {
			NoError(c.T, keyed.Acquire(c.Context(), fmt.Sprint(i), 1))
		}
		c.Sleep(5 * time.Second) // each was tried once
		const few, rounds = 50, 14
		sent()
		c.Sleep(10 * time.Second)
		if n := sent(); n == 0 || n > rounds*calls*(few+1) {
			t.Errorf("%d scripts in 10 s", n)
		}
		refuses.Store(false)
		c.Sleep(2 * time.Second)
		if h := c.Client.Health(); h.Unbooked != 0 {
			t.Errorf("%+v; want all booked", h)
		}
	})
}

// More keys are asked for than a Client can count without Redis. None gets an error, not even in a Group, and
// a key that is used more often than most is counted exactly.
func TestAnyNumberOfKeysFallsBack(t *testing.T) {
	const keys, rate, interval = 14_000, 3, time.Minute
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *Limiter) {
		keyed, total := c.Client.Keyed("many", rate, interval), c.Client.Keyed("total", keys, interval)
		end := outage(c)
		popular := 0
		for i := range keys {
			if i%100 == 0 {
				if ok, err := keyed.TryAcquire(c.Context(), "popular", 1, 0); err != nil {
					t.Fatal(err)
				} else if ok {
					popular++
				}
			}
			l, ok, err := keyed.RateLimiter(fmt.Sprint(i)), false, error(nil)
			if i%2 == 0 {
				ok, err = l.TryAcquire(c.Context(), 1, 0)
			} else {
				ok, err = c.Client.All(l, total.RateLimiter("all")).TryAcquire(c.Context(), 1, 0)
			}
			if !ok || err != nil {
				t.Fatalf("%v, %v for key %d", ok, err, i)
			}
			c.Sleep(time.Millisecond)
		}
		if popular != rate {
			t.Errorf("%d granted for a key, want %d", popular, rate)
		}
		c.Sleep(2 * interval) // nothing is left to book
		end()
		c.Sleep(time.Minute)
	})
}

// A caller of a Group whose timeout passes in line says nothing about Redis: the circuit opens although such
// callers come and go.
func TestRefusalsInLineAreNoReplies(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackDeny, func(c *Limiter) {
		g := c.Client.All(c.RateLimiter)
		NoError(t, Yes(g.TryAcquire(c.Context(), 10, 0)))
		head := c.Comes(c.Context(), 10, time.Hour)
		open := c.Gate.Shut()
		for range 3 {
			NoError(t, No(g.TryAcquire(c.Context(), 1, budget/2))) // behind the head
			decides(c, c.RateLimiter, 0, "false", budget)
		}
		if !c.Client.Health().Degraded {
			t.Error("the circuit is closed after three calls without a reply")
		}
		open()
		c.Sleep(time.Minute)
		head()
	})
}
