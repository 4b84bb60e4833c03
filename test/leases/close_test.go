package leases_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// Close gives back the leases of however many limiters, as long as Redis replies.
func TestCloseGivesAllLeasesBack(t *testing.T) {
	const lease = 500 * time.Millisecond
	for _, after := range []time.Duration{0, lease, lease + 300*time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) { closeGivesAllLeasesBack(t, after) })
	}
}

func closeGivesAllLeasesBack(t *testing.T, after time.Duration) {
	inBubble(t, 0, 1, func(b *bubble) {
		const limiters, trip = 100, 100 * time.Millisecond // at 16 at once these are 0.7 s
		var far atomic.Bool
		rdb := redistest.MiniClient(b.T, b.mini)
		rdb.AddHook(redistest.Hook(func(context.Context, ...redis.Cmder) error {
			if far.Load() {
				time.Sleep(trip)
			}
			return nil
		}))
		b.starts(rdb)
		client, look := b.processes[0].client, NewClient(b.T, b.look)
		left := func(i int) int64 {
			l := look.Keyed("api", 1000, interval).RateLimiter(strconv.Itoa(i))
			return redistest.Must(l.AvailablePermits(b.Context()))(b)
		}
		limits := client.Keyed("api", 1000, interval)
		for i := range limiters {
			for range 8 {
				NoError(b, Yes(limits.TryAcquire(b.Context(), strconv.Itoa(i), 1, 0)))
				synctest.Wait()
			}
			if n := left(i); n >= 1000-8 {
				b.Fatalf("%d permits are left of limiter %d, which is not leased", n, i)
			}
		}
		far.Store(true)
		time.Sleep(after)
		start := time.Now()
		NoError(b, client.Close())
		if took := time.Since(start); took > 2*time.Second {
			b.Errorf("Close took %v", took)
		}
		for i := range limiters {
			if n := left(i); n != 1000-8 {
				b.Fatalf("%d permits are left of limiter %d, want %d", n, i, 1000-8)
			}
		}
	})
}

// Close also gives back a lease whose request is under way, whether Redis is slow or the rate has changed.
func TestCloseGivesALeaseBackThatIsUnderWay(t *testing.T) {
	const late = 200 * time.Millisecond
	// It learns how many Clients share the limiter, takes the lease, and has taken it.
	for _, asks := range []time.Duration{late / 4, late + late/4, 2*late + late/4} {
		for _, changes := range []bool{false, true} {
			inBubble(t, 2, 10000, func(b *bubble) {
				p, other := b.processes[0], b.processes[1]
				b.leased(other) // Redis knows the scripts
				NoError(b, other.client.Close())
				before := b.value()
				p.late.Store(int64(late))
				NoError(b, Yes(p.TryAcquire(b.Context(), 8, 0)))
				time.Sleep(asks)
				if changes {
					l := NewClient(b.T, b.look).RateLimiter(b.name)
					keep := rratelimiter.WithKeepState()
					NoError(b, Yes(l.UpdateRate(b.Context(), Overall, 10000, interval/2, keep)))
				}
				NoError(b, p.client.Close())
				if n := b.value(); n != before-8 {
					b.Errorf("closed %v after the call, a changed rate %v: %d permits are left, want %d",
						asks, changes, n, before-8)
				}
			})
		}
	}
}

// Close gives back leases that could not be given back when they ended.
func TestCloseGivesBackLeasesThatEndedInAnOutage(t *testing.T) {
	inBubble(t, 1, 10000, func(b *bubble) {
		const limiters, each = 20, 8
		p, look := b.processes[0], NewClient(b.T, b.look)
		keyed := p.client.Keyed("api", 1000, interval)
		for i := range limiters {
			for range each {
				NoError(b, Yes(keyed.TryAcquire(b.Context(), strconv.Itoa(i), 1, 0)))
				synctest.Wait()
			}
		}
		p.dead.Store(true)
		time.Sleep(4 * time.Second)
		p.dead.Store(false)
		NoError(b, p.client.Close())
		for i := range limiters {
			l := look.Keyed("api", 1000, interval).RateLimiter(strconv.Itoa(i))
			if n := redistest.Must(l.AvailablePermits(b.Context()))(b); n != 1000-each {
				b.Errorf("%d permits are left of limiter %d, want %d", n, i, 1000-each)
			}
		}
	})
}
