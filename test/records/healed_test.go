package records_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/grants"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// Whatever another client leaves at every call, a call asks Redis at most three times: the first reply says
// that the limiter must be healed, then it is healed, and the call is judged. 1,000 expired records cost one
// more.
func TestAFaultCostsTwoMoreCalls(t *testing.T) {
	const rounds = 20
	for _, fault := range []struct {
		name  string
		leave func(l *Limiter)
		calls int
	}{
		{"no value", func(l *Limiter) { l.Want(l.Look.Del(l.Context(), l.ValueKey()).Err()) }, 1},
		{"no number as the value", func(l *Limiter) { l.SetKey(l.ValueKey(), "x") }, 1},
		{"a value that is too high", func(l *Limiter) { l.SetKey(l.ValueKey(), 1001) }, 1},
		{"a record further ahead than a clock may be", func(l *Limiter) {
			l.Record(l.Now+10_000, "\x10"+fmt.Sprintf("%016d", l.Now)+"\x01\x00\x00\x00")
		}, 3},
		{"1,500 records that have expired", func(l *Limiter) { l.Fill(l.Now-3000, 1, 1500, 1) }, 4},
		{"a time to live of the records", func(l *Limiter) {
			l.Want(l.Look.PExpire(l.Context(), l.PermitsKey(), time.Minute).Err())
		}, 1},
	} {
		t.Run(fault.name, func(t *testing.T) {
			OnBoth(t, func(b *Bench) {
				calls := b.CountScripts()
				l := b.NewLimiter(Overall, 1000, time.Second)
				l.Takes(1)
				for range rounds {
					b.Now += 7
					fault.leave(l)
					calls()
					l.Takes(1)
					if n := calls(); n > fault.calls {
						t.Fatalf("%d calls, want %d at most", n, fault.calls)
					}
				}
			})
		})
	}
}

// While two versions with different intervals take turns, fewer than one call of ten heals.
func TestVersionsThatTakeTurnsHealSeldom(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		const rounds = 300
		calls := b.CountScripts()
		l := b.NewLimiter(Overall, 1000, time.Second)
		short := l.Wrap(l.WithRate(500, time.Second))
		long := l.Wrap(l.WithRate(600, 3*time.Second))
		calls()
		for range rounds {
			b.Now += 13
			short.Takes(1)
			long.Takes(1)
		}
		sent := calls()
		if heals := (sent - 2*rounds) / 2; heals*10 > sent {
			t.Errorf("%d heals in %d calls", heals, sent)
		}
	})
}

// Two versions that set different intervals, or rates, take turns on a limiter. Each is granted what
// the permits taken within its own interval leave of its own rate, by any Client: not more,
// because of what the other one has removed, and not less.
func TestEachVersionKeepsItsOwnBound(t *testing.T) {
	type version struct {
		rate     int64
		interval time.Duration
	}
	for _, versions := range [][2]version{
		{{10, time.Second}, {100, 10 * time.Second}},
		{{1000, time.Second}, {100, 10 * time.Second}},
		{{10, time.Second}, {7, time.Second}},
		{{20, time.Minute}, {3, time.Second}},
	} {
		OnBoth(t, func(b *Bench) {
			name := redistest.Name(b)
			var keyeds [2]*rratelimiter.Keyed
			for i, v := range versions {
				keyeds[i] = b.Client.Keyed(name, v.rate, v.interval)
			}
			random := rand.New(rand.NewPCG(1, 2))
			var granted grants.Grants
			for range redistest.Rounds(t, 700) {
				i := random.IntN(2)
				if random.IntN(400) == 0 { // one version is alone for a time
					i = 1
					b.Now += 4_000
				}
				v, permits := versions[i], 1+random.Int64N(3)
				out := granted.Within(b.Now, v.interval.Milliseconds()).Sum()
				r, err := keyeds[i].For("k").Allow(b.Context(), permits)
				if fits := out+permits <= v.rate; err != nil || r.Allowed != fits {
					b.Fatalf("%d permits of %+v at %d, with %d taken: %+v, %v", permits, v, b.Now, out, r,
						err)
				}
				if r.Allowed {
					granted = append(granted, grants.Grant{At: b.Now, Permits: permits})
				}
				b.Now += random.Int64N(60)
			}
		})
	}
}
