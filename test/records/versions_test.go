package records_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/grants"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

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
