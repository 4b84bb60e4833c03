package tokenbucket

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// A bucket and a limiter of golang.org/x/time/rate have the same tokens, to the last bit, and grant the
// same steps, on random timelines.
func TestBucketDecidesAsTimeRate(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 3))
		capacity := 1 + random.Int64N([]int64{1, 3, 50, 1e6, 1 << 40}[random.IntN(5)])
		perSecond := math.Exp(random.Float64()*40 - 12)
		if random.IntN(2) == 0 {
			perSecond = float64(1 + random.Int64N(1000))
		}
		perSecond = max(perSecond, float64(capacity)/3e8) // it fills in 10 years
		b, s := newBucket(float64(capacity), perSecond), state{}
		theirs := rate.NewLimiter(rate.Limit(perSecond), int(capacity))
		now := time.Unix(1_700_000_000, 0)
		for i := range 300 {
			pause := random.Float64() * float64(random.Int64N(4)) * 1e6 * float64(capacity) / perSecond
			if random.IntN(3) == 0 {
				pause = 1e6 / perSecond
			}
			now = now.Add(time.Duration(min(pause, 1e12)) * time.Microsecond)
			n := 1 + random.Int64N(capacity)
			if random.IntN(2) == 0 {
				n = 1
			}
			if tokens, want := b.at(&s, now.UnixMicro()), theirs.TokensAt(now); tokens != want {
				t.Fatalf("seed %d, step %d: %v tokens, and they have %v", seed, i, tokens, want)
			}
			a := b.take(&s, now.UnixMicro(), n, 0)
			if a.Allowed != theirs.AllowN(now, int(n)) {
				t.Fatalf("seed %d, step %d: %d are granted: %v", seed, i, n, a.Allowed)
			}
			if !a.Allowed && !theirs.AllowN(now.Add(time.Duration(a.Retry)*time.Microsecond), int(n)) {
				t.Fatalf("seed %d, step %d: a retry after %d µs is too early", seed, i, a.Retry)
			} else if !a.Allowed {
				now = now.Add(time.Duration(a.Retry) * time.Microsecond)
				if !b.take(&s, now.UnixMicro(), n, 0).Allowed {
					t.Fatalf("seed %d, step %d: a retry after %d µs is refused", seed, i, a.Retry)
				}
			}
		}
	}
}
