package rratelimiter_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// While Redis refuses and the circuit is closed, Acquire of a Group waits for permits of the
// share. It returns nil only to callers that hold permits.
func TestAGroupsAcquireHoldsPermits(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *crowd) {
		c.rdb.AddHook(answering(func(cmd redis.Cmder) bool {
			if cmd.Name() == "evalsha" {
				cmd.SetErr(redisError("OOM command not allowed"))
			}
			return cmd.Name() == "evalsha"
		}))
		g := c.client.All(c.RateLimiter)
		if ok, err := g.TryAcquire(c.Context(), 10, 0); !ok || err != nil {
			t.Fatal(ok, err)
		}
		start := time.Now()
		for range 20 { // two intervals
			noError(c.T, g.Acquire(c.Context(), 1))
		}
		if took := time.Since(start); took < 1900*time.Millisecond {
			t.Errorf("20 permits of 10 per second after %v", took)
		}
		noError(c.T, g.Acquire(c.Context(), 10)) // the next interval's
		start = time.Now()
		ok, err := g.TryAcquire(c.Context(), 1, 2*time.Second)
		if took := time.Since(start); !ok || err != nil || took == 0 {
			t.Errorf("%v, %v after %v; want granted when the share is there again", ok, err, took)
		}
	})
}

// A Client that only uses a limiter through a Group remembers its share for as long as the
// outage lasts.
func TestAGroupsShareOutlastsTheOutage(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *crowd) {
		g := c.client.All(c.RateLimiter)
		end := c.outage()
		defer end()
		for i := range 60 {
			if ok, err := g.TryAcquire(c.Context(), 1, 0); !ok || err != nil {
				t.Fatalf("after %d s: %v, %v", 3*i, ok, err)
			}
			c.sleep(3 * time.Second)
			if i%20 == 19 { // another limiter has the Client look for those that are not used
				ctx, cancel := context.WithTimeout(c.Context(), time.Millisecond)
				_, _ = c.client.RateLimiter(fmt.Sprint(i)).TrySetRate(ctx, overall, 1, time.Second)
				cancel()
			}
		}
	})
}

// More than a member's rate is refused at once, however many of its records have expired.
func TestAGroupAboveARateAndManyExpiredRecords(t *testing.T) {
	s := redistest.Start(t)
	for what, counts := range map[string]int{"all have expired": 0, "some still count": 100} {
		t.Run(what, func(t *testing.T) {
			rdb := s.Client(t)
			c := rratelimiter.New(rdb)
			t.Cleanup(func() { _ = c.Close() })
			tag := "{" + redistest.Name(t) + "}"
			full, other := c.RateLimiter(tag+"full"), c.RateLimiter(tag+"other")
			noError(t, full.SetRate(t.Context(), overall, 100_000, time.Minute))
			noError(t, other.SetRate(t.Context(), overall, 5, time.Minute))
			const records = 6000
			now := time.Now().UnixMilli()
			fill := make([]redis.Z, records)
			for i := range fill {
				at := now - 10*time.Minute.Milliseconds()
				if i < counts {
					at = now
				}
				fill[i] = redis.Z{Score: float64(at), Member: fmt.Sprintf("\x10%016d\x01\x00\x00\x00", i)}
			}
			permits := full.Name() + ":permits"
			noError(t, rdb.ZAdd(t.Context(), permits, fill...).Err())
			noError(t, rdb.Set(t.Context(), full.Name()+":value", 100_000-records, 0).Err())
			rdb.ConfigResetStat(t.Context())
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			err := errOf(c.All(full, other).TryAcquire(ctx, 6, 0))
			if !errors.Is(err, rratelimiter.ErrPermitsExceedRate) {
				t.Errorf("%v, want ErrPermitsExceedRate", err)
			}
			noError(t, yes(c.All(full, other).TryAcquire(ctx, 5, 0)))
		})
	}
}

// A node of a cluster that is silent does not delay calls of Groups on others.
func TestGroupsOnANodeThatIsSilent(t *testing.T) {
	cluster := redistest.StartCluster(t)
	rdb := cluster.Client(t)
	c := rratelimiter.New(rdb)
	t.Cleanup(func() { _ = c.Close() })
	groups := map[bool]*rratelimiter.Group{} // by whether their node is silent
	for i := 0; groups[true] == nil || groups[false] == nil; i++ {
		l := c.RateLimiter(fmt.Sprint(redistest.Name(t), i))
		node, err := rdb.MasterForKey(t.Context(), l.Name())
		noError(t, err)
		noError(t, l.SetRate(t.Context(), overall, 1000, time.Hour))
		groups[node.Options().Addr == cluster.Servers[0].Addr] = c.All(l)
	}
	thaw := cluster.Servers[0].Freeze(t)
	defer thaw()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var ended atomic.Int64
	for range 100 {
		all.Go(func() {
			_ = groups[true].Acquire(ctx, 1)
			ended.Add(1)
		})
	}
	for range 100 {
		noError(t, yes(groups[false].TryAcquire(t.Context(), 1, 0)))
	}
	if n := ended.Load(); n > 0 {
		t.Errorf("%d calls to the silent node have ended: they have not held up the others", n)
	}
}

// Redis comes back empty: a Client that does nothing asks for few of the limiters whose
// permits it would book, and books those that are used again.
func TestAnEmptyRestartAndManyUnbookedLimiters(t *testing.T) {
	const limiters = 500
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *crowd) {
		each := make([]*rratelimiter.RateLimiter, limiters)
		for i := range each {
			each[i] = c.client.RateLimiter(fmt.Sprint("l", i))
			noError(c.T, each[i].SetRate(c.Context(), overall, 10, time.Hour))
		}
		end := c.outage()
		for _, l := range each {
			took(c.T, l, 1, 0, 0)
		}
		c.server.FlushAll()
		end()
		c.sleep(5 * time.Second) // all were asked for once
		asked := c.gate.count()
		c.sleep(20 * time.Second)
		if n := c.gate.count() - asked; n == 0 || n > 20*200 {
			t.Errorf("%d requests in 20 s for %d limiters without a rate", n, limiters)
		}
		for _, l := range each[:10] {
			noError(c.T, l.SetRate(c.Context(), overall, 10, time.Hour))
			took(c.T, l, 1, 0, 0)
		}
		c.sleep(3 * time.Second)
		for _, l := range each[:10] {
			if r, err := l.Peek(c.Context()); err != nil || r.Remaining != 8 {
				t.Errorf("%+v, %v; want the permit of the outage booked", r, err)
			}
		}
	})
}

// A circuit stays open while Redis replies, but later than the budget.
func TestACircuitAndASlowRedis(t *testing.T) {
	var changes atomic.Int64
	fallsBack(t, 1000, rratelimiter.FallbackDeny, func(c *crowd) {
		var delay atomic.Int64
		delay.Store(int64(120 * time.Millisecond))
		c.rdb.AddHook(hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			time.Sleep(time.Duration(delay.Load()))
			return next(ctx, cmd)
		}))
		waited := 0
		for range 2000 {
			start := time.Now()
			_, _ = c.TryAcquire(c.Context(), 1, 0)
			if time.Since(start) > 0 {
				waited++
			}
			c.sleep(10 * time.Millisecond)
		}
		if n := changes.Load(); n != 1 || waited > 3 {
			t.Errorf("the circuit changed %d times, %d calls waited; want it open after 3 calls", n, waited)
		}
		delay.Store(0)
		c.sleep(3 * time.Second)
		took(c.T, c.RateLimiter, 1, 0, 0)
	}, rratelimiter.WithBudget(60*time.Millisecond),
		rratelimiter.WithHealthHook(func(rratelimiter.Health) { changes.Add(1) }))
}
