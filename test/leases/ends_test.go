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

// leased takes permits until the process has a lease, and returns how many these were.
func (b *bubble) leased(p *process) (taken int64) {
	b.Helper()
	for range 100 {
		before := p.trips.Load()
		if !b.take(p, 1) {
			break
		}
		if taken++; p.trips.Load() == before && taken > 20 {
			return taken
		}
	}
	b.Fatalf("no lease after %d permits", taken)
	return 0
}

// A lease that Redis grants late, after the Client has granted permits without it, is given back: Redis
// does not know of these yet.
func TestALateLeaseAddsNothingToTheShare(t *testing.T) {
	inBubble(t, 0, 100, func(b *bubble) {
		gate := &Gate{}
		rdb := redistest.MiniClient(b.T, b.mini)
		rdb.AddHook(Hook(gate.Process))
		b.starts(rdb, rratelimiter.WithFallback(rratelimiter.FallbackLocal),
			rratelimiter.WithBudget(15*time.Millisecond))
		p, taken := b.processes[0], 0
		take := func(calls int, pause time.Duration) {
			for range calls {
				if b.take(p, 1) {
					taken++
				}
				time.Sleep(pause)
			}
		}
		for before := int64(-1); p.trips.Load() != before; {
			before = p.trips.Load()
			take(1, 0)
		}
		open := gate.Shut() // in the middle of a lease
		take(95, 0)         // by the lease, whose next one is asked for, and then by the share
		open()
		take(500, 8*time.Millisecond)
		if taken != 100 {
			b.Errorf("%d permits were taken, want 100", taken)
		}
	})
}

// After an outage no lease is taken until other Clients have booked what they granted without Redis.
func TestNoLeaseSoonAfterAnOutage(t *testing.T) {
	const others = 3250 * time.Millisecond // they book by then (docs/fallback.md)
	inBubble(t, 0, 100_000, func(b *bubble) {
		gate := &Gate{}
		rdb := redistest.MiniClient(b.T, b.mini)
		rdb.AddHook(Hook(gate.Process))
		b.starts(rdb, rratelimiter.WithFallback(rratelimiter.FallbackLocal))
		p := b.processes[0]
		b.leased(p)
		time.Sleep(interval)
		open := gate.Shut()
		for !p.client.Health().Degraded {
			b.take(p, 1)
		}
		open()
		for p.client.Health().Degraded {
			time.Sleep(time.Millisecond)
		}
		for back := time.Now(); time.Since(back) < others; time.Sleep(5 * time.Millisecond) {
			before := p.trips.Load()
			if b.take(p, 1); p.trips.Load() == before {
				b.Fatalf("a lease %v after the outage", time.Since(back))
			}
		}
		b.leased(p)
	})
}

// A lease that cannot be settled at its end is settled when Redis is back, not an interval later, also if
// Redis is slow. The permits that it used count for an interval, from its end at the latest.
func TestALeaseIsSettledLate(t *testing.T) {
	for name, c := range map[string]struct {
		dead, late, after time.Duration
		back              bool // what was used is an interval old
	}{
		"Redis is back":             {interval / 10, 0, interval / 4, false},
		"the settlement takes long": {0, interval / 5, interval / 2, false},
		"an interval later":         {0, interval / 5, interval + interval/4, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, 10000, func(b *bubble) {
				p, plain := b.processes[0], NewClient(b.T, b.look).RateLimiter(b.name)
				taken := b.leased(p)
				last := time.Now()
				p.dead.Store(c.dead > 0)
				p.late.Store(int64(c.late))
				time.Sleep(c.dead)
				p.dead.Store(false)
				if c.back {
					taken = 0
				}
				time.Sleep(c.after)
				synctest.Wait()
				sum := int64(0)
				for _, r := range b.records() {
					sum += r.permits
					if c.dead == 0 && r.at.After(last.Add(interval/20)) {
						b.Errorf("%d permits count from %v after the last use on", r.permits, r.at.Sub(last))
					}
				}
				if v := b.value(); v+sum != 10000 {
					b.Errorf("the value is %d, and %d permits are in records", v, sum)
				}
				if n := redistest.Must(plain.AvailablePermits(b.Context()))(b); n != 10000-taken {
					b.Errorf("%d are left, want %d", n, 10000-taken)
				}
			})
		})
	}
}

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
