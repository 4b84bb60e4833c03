package leases_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// Close gives back the leases of however many limiters, as long as Redis replies, and those that could not
// be given back when they ended.
func TestCloseGivesAllLeasesBack(t *testing.T) {
	const lease, each = 500 * time.Millisecond, 8
	for name, c := range map[string]struct {
		limiters int
		after    time.Duration // from the last call until Close
		outage   bool          // until Close
	}{
		"at once":                {100, 0, false},
		"when they end":          {100, lease, false},
		"while they are settled": {100, lease + 300*time.Millisecond, false},
		"after an outage":        {20, 8 * lease, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, 1, func(b *bubble) {
				p, limits := b.processes[0], NewClient(b.T, b.look).Keyed("api", 1000, interval)
				left := func(i int) int64 {
					l := limits.For(strconv.Itoa(i))
					return redistest.Must(l.AvailablePermits(b.Context()))(b)
				}
				for i := range c.limiters {
					for range each {
						leases := p.client.Keyed("api", 1000, interval)
						NoError(b, Yes(leases.For(strconv.Itoa(i)).TryAcquire(b.Context(), 1, 0)))
						synctest.Wait()
					}
					if n := left(i); n >= 1000-each {
						b.Fatalf("%d permits are left of limiter %d, which is not leased", n, i)
					}
				}
				p.dead.Store(c.outage)
				if !c.outage {
					p.late.Store(int64(100 * time.Millisecond)) // at 16 at once these are 0.7 s
				}
				time.Sleep(c.after)
				p.dead.Store(false)
				start := time.Now()
				NoError(b, p.client.Close())
				if took := time.Since(start); took > 2*time.Second {
					b.Errorf("Close took %v", took)
				}
				for i := range c.limiters {
					if n := left(i); n != 1000-each {
						b.Fatalf("%d permits are left of limiter %d, want %d", n, i, 1000-each)
					}
				}
			})
		})
	}
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
