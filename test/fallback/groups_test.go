package fallback_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// While Redis refuses and the circuit is closed, Acquire of a Group waits for permits of the
// share. It returns nil only to callers that hold permits.
func TestAGroupsAcquireHoldsPermits(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *Limiter) {
		c.RDB.AddHook(Refusing("OOM command not allowed", nil))
		g := c.Client.All(c.RateLimiter)
		start := time.Now()
		NoError(t, Yes(g.TryAcquire(c.Context(), 10, 0)))
		for range 20 { // two intervals
			NoError(c.T, g.Acquire(c.Context(), 1))
		}
		if took := time.Since(start); took < 1900*time.Millisecond {
			t.Errorf("20 permits of 10 per second after %v", took)
		}
		NoError(c.T, g.Acquire(c.Context(), 10)) // the next interval's
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
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *Limiter) {
		g := c.Client.All(c.RateLimiter)
		end := outage(c)
		defer end()
		for i := range 60 {
			if ok, err := g.TryAcquire(c.Context(), 1, 0); !ok || err != nil {
				t.Fatalf("after %d s: %v, %v", 3*i, ok, err)
			}
			c.Sleep(3 * time.Second)
			if i%20 == 19 { // another limiter has the Client look for those that are not used
				ctx, cancel := context.WithTimeout(c.Context(), time.Millisecond)
				_, _ = c.Client.RateLimiter(fmt.Sprint(i)).TrySetRate(ctx, Overall, 1, time.Second)
				cancel()
			}
		}
	})
}

// More than a member's rate is refused at once, however many of its records have expired.
func TestAGroupAboveARateIsRefusedAtOnce(t *testing.T) {
	s := redistest.Start(t)
	for what, counts := range map[string]int{"all have expired": 0, "some still count": 100} {
		t.Run(what, func(t *testing.T) {
			rdb := s.Client(t)
			c := NewClient(t, rdb)
			tag := "{" + redistest.Name(t) + "}"
			full, other := c.RateLimiter(tag+"full"), c.RateLimiter(tag+"other")
			NoError(t, full.SetRate(t.Context(), Overall, 100_000, time.Minute))
			NoError(t, other.SetRate(t.Context(), Overall, 5, time.Minute))
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
			NoError(t, rdb.ZAdd(t.Context(), permits, fill...).Err())
			NoError(t, rdb.Set(t.Context(), full.Name()+":value", 100_000-records, 0).Err())
			rdb.ConfigResetStat(t.Context())
			ctx := TimeLimit(t, 5*time.Second)
			err := ErrOf(c.All(full, other).TryAcquire(ctx, 6, 0))
			WantErr(t, err, rratelimiter.ErrPermitsExceedRate)
			NoError(t, Yes(c.All(full, other).TryAcquire(ctx, 5, 0)))
		})
	}
}

// A node of a cluster that is silent does not delay calls of Groups on others.
func TestASilentNodeDelaysNoGroupsOnOthers(t *testing.T) {
	cluster := redistest.StartCluster(t)
	rdb := cluster.Client(t)
	c := NewClient(t, rdb)
	groups := map[bool]*rratelimiter.Group{} // by whether their node is silent
	for i := 0; groups[true] == nil || groups[false] == nil; i++ {
		l := c.RateLimiter(fmt.Sprint(redistest.Name(t), i))
		node, err := rdb.MasterForKey(t.Context(), l.Name())
		NoError(t, err)
		NoError(t, l.SetRate(t.Context(), Overall, 1000, time.Hour))
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
		NoError(t, Yes(groups[false].TryAcquire(t.Context(), 1, 0)))
	}
	if n := ended.Load(); n > 0 {
		t.Errorf("%d calls to the silent node have ended: they have not held up the others", n)
	}
}

// Redis comes back empty: a Client that does nothing asks for few of the limiters whose
// permits it would book, and books those that are used again.
func TestAnEmptyRestartBooksWhatIsUsedAgain(t *testing.T) {
	const limiters = 500
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *Limiter) {
		each := make([]*rratelimiter.RateLimiter, limiters)
		for i := range each {
			each[i] = c.Client.RateLimiter(fmt.Sprint("l", i))
			NoError(c.T, each[i].SetRate(c.Context(), Overall, 10, time.Hour))
		}
		end := outage(c)
		for _, l := range each {
			c.Wrap(l).Took(1, 0, 0)
		}
		c.Mini.FlushAll()
		end()
		c.Sleep(5 * time.Second) // all were asked for once
		asked := c.Gate.Count()
		c.Sleep(20 * time.Second)
		if n := c.Gate.Count() - asked; n == 0 || n > 20*200 {
			t.Errorf("%d requests in 20 s for %d limiters without a rate", n, limiters)
		}
		for _, l := range each[:10] {
			NoError(c.T, l.SetRate(c.Context(), Overall, 10, time.Hour))
			c.Wrap(l).Took(1, 0, 0)
		}
		c.Sleep(3 * time.Second)
		for _, l := range each[:10] {
			if r, err := l.Peek(c.Context()); err != nil || r.Remaining != 8 {
				t.Errorf("%+v, %v; want the permit of the outage booked", r, err)
			}
		}
	})
}

// A circuit stays open while Redis replies, but later than the budget.
func TestTheCircuitStaysOpenWhileRedisIsSlow(t *testing.T) {
	var changes atomic.Int64
	fallsBack(t, 1000, rratelimiter.FallbackDeny, func(c *Limiter) {
		var delay atomic.Int64
		delay.Store(int64(120 * time.Millisecond))
		c.RDB.AddHook(Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
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
			c.Sleep(10 * time.Millisecond)
		}
		if n := changes.Load(); n != 1 || waited > 3 {
			t.Errorf("the circuit changed %d times, %d calls waited; want it open after 3 calls", n, waited)
		}
		delay.Store(0)
		c.Sleep(3 * time.Second)
		c.Took(1, 0, 0)
	}, rratelimiter.WithBudget(60*time.Millisecond),
		rratelimiter.WithHealthHook(func(rratelimiter.Health) { changes.Add(1) }))
}
