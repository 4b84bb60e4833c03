package groups_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

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
