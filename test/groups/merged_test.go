package groups_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// Callers of a Group that arrive during a call share the next one. If not all can have permits, the first
// ones get them. Permits of a caller that has left go back.
func TestCallersOfAGroupShareCalls(t *testing.T) {
	for name, row := range map[string]struct {
		rate    int64 // of the second limiter; the first one has plenty
		permits int64 // of each caller
		callers int   // behind the first one
		leave   []int // which of these leave during their call
		granted int64 // of all
		calls   int   // at most, with the withdrawals
	}{
		"all":                    {1000, 3, 63, nil, 64, 2},
		"some":                   {32, 3, 63, nil, 10, 4},
		"one":                    {3, 3, 63, nil, 1, 3},
		"more than a rate":       {5, 1, 63, nil, 5, 4},
		"the first one leaves":   {1000, 3, 5, []int{0}, 5, 4},
		"others leave":           {1000, 3, 5, []int{1, 4}, 4, 4},
		"all leave":              {1000, 3, 2, []int{0, 1}, 1, 4},
		"one leaves, one is out": {9, 3, 3, []int{1}, 3, 6},
		"more than share a call": {1000, 3, 300, nil, 301, 3}, // 256 do
	} {
		Bubble(t, func(c *Limiter) {
			scarce := c.Client.RateLimiter("scarce").WithRate(row.rate, time.Hour)
			ample := c.Client.RateLimiter("ample").WithRate(1000, time.Hour)
			g := c.Client.All(ample, scarce)
			c.Want(ErrOf(g.TryAcquire(c.Context(), 1, 0))) // the script is known from here on
			c.Want(g.Release(c.Context(), 1))
			c.RDB.AddHook(Hook(c.Gate.Process))
			var all sync.WaitGroup
			var granted atomic.Int64
			comes := func(ctx context.Context) {
				all.Go(func() {
					ok, err := g.TryAcquire(ctx, row.permits, 0)
					if err != nil && ctx.Err() == nil {
						c.Errorf("%s: %v", name, err)
					}
					if ok {
						granted.Add(1)
					}
				})
				synctest.Wait()
			}
			openFirst := c.Gate.Shut()
			comes(c.Context())
			leaves := make([]func(), row.callers)
			for i := range leaves {
				ctx, cancel := context.WithCancel(c.Context())
				defer cancel()
				leaves[i] = cancel
				comes(ctx)
			}
			openSecond := c.Gate.Shut()
			openFirst()
			synctest.Wait()
			for _, i := range row.leave {
				leaves[i]()
			}
			synctest.Wait()
			openSecond()
			all.Wait()
			c.Sleep(time.Second)
			n, calls := granted.Load(), c.Gate.Count()
			if n != row.granted || calls > row.calls || row.callers > 256 && calls < row.calls {
				c.Errorf("%s: %d granted in %d calls, want %d in %d", name, n, calls, row.granted, row.calls)
			}
			for _, l := range []*rratelimiter.RateLimiter{ample, scarce} {
				r, err := l.Peek(c.Context())
				if want := r.Limit - row.granted*row.permits; err != nil || r.Remaining != want {
					c.Errorf("%s: %d left of %s, want %d; %v", name, r.Remaining, l, want, err)
				}
			}
		})
	}
}

func TestCallersOfASharedCallGetTheirNumbers(t *testing.T) {
	Bubble(t, func(c *Limiter) {
		g := c.Client.All(c.Client.RateLimiter("one").WithRate(10, time.Minute),
			c.Client.RateLimiter("two").WithRate(20, time.Minute)).Amounts(1, 2)
		c.Want(ErrOf(g.TryAcquire(c.Context(), 1, 0)))
		c.RDB.AddHook(Hook(c.Gate.Process))
		open := c.Gate.Shut()
		var all sync.WaitGroup
		results := make([]rratelimiter.Result, 5)
		for i := range results {
			all.Go(func() {
				var err error
				results[i], err = g.Allow(c.Context(), 1)
				c.Want(err)
			})
			synctest.Wait()
		}
		open()
		all.Wait()
		for i, r := range results {
			one, two := r.Each[0].Remaining, r.Each[1].Remaining
			if !r.Allowed || one != 8-int64(i) || two != 16-2*int64(i) {
				c.Errorf("caller %d: %v, %d and %d left", i, r.Allowed, one, two)
			}
		}
	})
}

// Callers that want different permits have calls of their own, which do not wait for each other.
func TestCallersOfDifferentAmountsDoNotWaitForEachOther(t *testing.T) {
	Bubble(t, func(c *Limiter) {
		g := c.Client.All(c.Client.RateLimiter("one").WithRate(100, time.Minute),
			c.Client.RateLimiter("two").WithRate(100, time.Minute))
		c.Want(ErrOf(g.TryAcquire(c.Context(), 1, 0)))
		c.RDB.AddHook(Hook(c.Gate.Process))
		open := c.Gate.Shut()
		var all sync.WaitGroup
		for _, permits := range []int64{1, 2} {
			all.Go(func() { c.Want(Yes(g.TryAcquire(c.Context(), permits, 0))) })
			synctest.Wait()
		}
		if n := c.Gate.Count(); n != 2 {
			c.Errorf("%d calls under way, want one for each amount", n)
		}
		open()
		all.Wait()
	})
}

// Many callers of one Group want different permits and leave at any time, while replies are late or lost.
// In the end Redis counts the permits that callers were granted, and no others.
func TestManyCallersOfAGroupAreCountedExactly(t *testing.T) {
	n := NewProxied(t, 10, time.Hour)
	tr := newTrio(n.Bench, 40_000, 80_000, 40_000)
	n.Want(tr.each[0].SetRate(t.Context(), Overall, 40_000, time.Hour))
	n.Want(tr.each[1].SetRate(t.Context(), Overall, 80_000, time.Hour))
	g := tr.Amounts(1, 2, 1)
	ctx, end := context.WithCancel(t.Context())
	var faults, all sync.WaitGroup
	faults.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			n.Proxy.Delay(time.Duration(i%4/2) * 30 * time.Millisecond)
			if n.Proxy.SwallowReply(1); i%4 == 0 {
				n.Proxy.Cut()
			}
			<-tick.C
		}
	})
	var granted atomic.Int64
	for i := range redistest.Rounds(t, 10_000) {
		all.Go(func() {
			ctx := context.Background()
			if i%3 > 0 {
				ctx = TimeLimit(t, rand.N(200*time.Millisecond))
			}
			permits := 1 + int64(i%5/4)
			if ok, _ := g.TryAcquire(ctx, permits, 0); ok {
				granted.Add(permits)
			}
		})
		if i%500 == 0 {
			time.Sleep(10 * time.Millisecond) // the next ones arrive later
		}
	}
	all.Wait()
	end()
	faults.Wait()
	n.Proxy.Delay(0)
	for i, amount := range []int64{1, 2, 1} {
		tr.each[i].UntilOut(amount * granted.Load())
	}
}
