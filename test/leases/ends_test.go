package leases_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

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

// A release that comes while a lease is being settled gives back what the lease has handed out.
func TestAReleaseWaitsForTheSettlement(t *testing.T) {
	inBubble(t, 1, 10000, func(b *bubble) {
		p := b.processes[0]
		taken := b.leased(p)
		p.late.Store(int64(100 * time.Millisecond))
		time.Sleep(interval / 20)
		synctest.Wait() // the settlement is under way
		p.late.Store(0)
		NoError(b, p.Release(b.Context(), taken))
		if v := b.value(); v != 10000 {
			b.Errorf("%d are left, want 10000", v)
		}
	})
}

// A lease keeps no permits from the process that has it: a call for more than it has gets them.
func TestACallForMoreThanTheLeaseHasGetsIt(t *testing.T) {
	for _, tt := range []struct {
		name string
		call func(b *bubble, p *process, permits int64) (bool, error)
	}{
		{"at once", func(b *bubble, p *process, permits int64) (bool, error) {
			return p.TryAcquire(b.Context(), permits, 0)
		}},
		{"in line", func(b *bubble, p *process, permits int64) (bool, error) {
			return p.TryAcquire(b.Context(), permits, 50*time.Millisecond)
		}},
		{"of a Group", func(b *bubble, p *process, permits int64) (bool, error) {
			return p.client.All(p.RateLimiter).TryAcquire(b.Context(), permits, 0)
		}},
		{"of a Group in line", func(b *bubble, p *process, permits int64) (bool, error) {
			return p.client.All(p.RateLimiter).TryAcquire(b.Context(), permits, 50*time.Millisecond)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, 1, 1000, func(b *bubble) {
				p := b.processes[0]
				taken := b.leased(p)
				if b.value() == 1000-taken {
					b.Fatal("the lease has nothing left")
				}
				if !redistest.Must(tt.call(b, p, 1000-taken))(b) {
					b.Errorf("%d of 1000 permits were refused, though only %d were taken", 1000-taken, taken)
				}
				time.Sleep(time.Second)
				if v := b.value(); v != 0 {
					b.Errorf("%d are left", v)
				}
			})
		})
	}
}

// A changed rate bounds the leases from the next one on.
func TestLeasesFollowTheRate(t *testing.T) {
	for _, tt := range []struct {
		name     string
		rate     int64
		interval time.Duration
		longest  time.Duration // of a lease; 0 for none
	}{
		{"a shorter interval", 1000, time.Second, 50 * time.Millisecond},
		{"a smaller rate", 99, interval, 0},
		{"too short an interval", 1000, 90 * time.Millisecond, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, 1, 1000, func(b *bubble) {
				p := b.processes[0]
				b.leased(p)
				NoError(b.T, p.SetRate(b.Context(), Overall, tt.rate, tt.interval))
				b.take(p, 1) // the first lease after it may be longer
				time.Sleep(interval / 20)
				for range 200 {
					b.take(p, 1)
					time.Sleep(5 * time.Millisecond)
					for _, r := range b.records() {
						if ahead := time.Until(r.at); ahead > tt.longest {
							b.Fatalf("a lease of %v, want %v at most", ahead, tt.longest)
						}
					}
				}
			})
		})
	}
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

// A Release of more than was taken leaves alone what is leased: the lease hands it out.
func TestAReleaseOfMoreThanWasTakenGrantsNothingTwice(t *testing.T) {
	inBubble(t, 1, 1000, func(b *bubble) {
		p, plain := b.processes[0], NewClient(b.T, b.look).RateLimiter(b.name)
		b.leased(p)
		for _, l := range []*rratelimiter.RateLimiter{p.RateLimiter, plain} {
			NoError(b.T, l.Release(b.Context(), 1000))
		}
		taken := int64(0)
		for redistest.Must(plain.TryAcquire(b.Context(), 1, 0))(b) {
			taken++
		}
		for b.take(p, 1) {
			taken++
		}
		if taken > 1000 {
			b.Errorf("%d of 1000 permits were taken after all were given back", taken)
		}
	})
}

// Where calls are refused, callers compete for each permit that comes back, and nothing is leased: a lease
// would leave nothing to those that take one permit after the other, as Java does.
func TestNothingIsLeasedWhereCallsAreRefused(t *testing.T) {
	inBubble(t, 1, 1000, func(b *bubble) {
		p, plain := b.processes[0], NewClient(b.T, b.look).RateLimiter(b.name)
		b.leased(p)
		if b.take(p, 1000) {
			b.Fatal("more was granted than is there")
		}
		if !redistest.Must(plain.TryAcquire(b.Context(), b.value(), 0))(b) || b.take(p, 1) {
			b.Fatal("permits are left")
		}
		for range 9 {
			NoError(b.T, plain.Release(b.Context(), 50))
			for range 50 {
				before := p.trips.Load()
				if !b.take(p, 1) || p.trips.Load() != before+1 {
					b.Fatalf("%d round trips, want a call for each permit", p.trips.Load()-before)
				}
			}
			if b.take(p, 1) {
				b.Fatal("there were 50 permits")
			}
			time.Sleep(10 * time.Millisecond)
		}
		NoError(b.T, plain.Release(b.Context(), 100))
		time.Sleep(time.Second)
		b.leased(p)
	})
}

// The size of a lease follows the use of the last one, unless that was long ago.
func TestALeaseAfterAPauseIsSmall(t *testing.T) {
	inBubble(t, 1, 10000, func(b *bubble) {
		p := b.processes[0]
		for b.take(p, 1); b.value() > 5000; { // leases take more and more
			b.take(p, 1)
		}
		for range 2000 {
			b.take(p, 1)
		}
		time.Sleep(2 * interval)
		const calls = 10
		for range calls {
			b.take(p, 1)
		}
		if out := 10000 - b.value(); out > 3*calls {
			b.Errorf("%d permits are out after %d calls", out, calls)
		}
	})
}

// A lone caller far from Redis, who needs leases most, gets them.
func TestALoneCallerFarFromRedisGetsLeases(t *testing.T) {
	inBubble(t, 0, 1000, func(b *bubble) {
		rdb := redistest.MiniClient(b.T, b.mini)
		rdb.AddHook(Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			time.Sleep(4 * time.Millisecond)
			return next(ctx, cmd)
		}))
		b.starts(rdb)
		b.leased(b.processes[0])
	})
}
