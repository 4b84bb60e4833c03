package leases_test

import (
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
