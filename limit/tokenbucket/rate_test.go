package tokenbucket

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/limit"
)

// A step of a timeline: after a time in ms, n permits are granted or not.
type step struct {
	after time.Duration
	n     int64
	want  bool
}

// timelines are those of the tests of golang.org/x/time/rate, and some more.
var timelines = map[string]struct {
	bucket Bucket
	steps  []step
}{
	"TestLimiterBurst1": {Bucket{1, 10, time.Second}, []step{
		{0, 1, true}, {0, 1, false}, {0, 1, false},
		{100, 1, true}, {0, 1, false}, {0, 1, false},
		{100, 1, true}, {0, 1, false},
	}},
	"TestLimiterBurst3": {Bucket{3, 10, time.Second}, []step{
		{0, 2, true}, {0, 2, false}, {0, 1, true}, {0, 1, false},
		{100, 3, false}, {100, 1, true}, {100, 1, true}, {100, 1, true}, {0, 1, true}, {0, 1, false},
		{0, 1, false}, {500, 3, true}, {0, 1, false},
	}},
	"TestLimiter_noTruncationErrors": {Bucket{1, 0.7692307692307693, time.Second}, []step{
		{0, 1, true}, {1299, 1, false}, {1, 1, true},
	}},
	"TestSimultaneousRequests": {Bucket{5, 1, time.Second}, []step{
		{0, 1, true}, {0, 1, true}, {0, 1, true}, {0, 1, true}, {0, 1, true}, {0, 1, false}, {0, 1, false},
	}},
	"a rate that no float64 has": {Bucket{1, 1, time.Minute}, []step{
		{0, 1, true}, {59_999, 1, false}, {1, 1, true}, {60_000, 1, true}, {59_999, 1, false}, {1, 1, true},
	}},
	"half a permit": {Bucket{1, 0.5, time.Second}, []step{
		{0, 1, true}, {1999, 1, false}, {1, 1, true}, {10_000, 1, true}, {0, 1, false},
	}},
	"a huge rate": {Bucket{1000, 1 << 40, time.Millisecond}, []step{
		{0, 1000, true}, {0, 1000, true}, {1, 1000, true},
	}},
	"a huge bucket": {Bucket{1 << 40, 1 << 40, time.Second}, []step{
		{0, 1 << 40, true}, {0, 1100, false}, {500, 1 << 39, true}, {0, 1100, false}, {1000, 1 << 40, true},
	}},
	"the slowest": {Bucket{1, 1, 3660 * 24 * time.Hour}, []step{
		{0, 1, true}, {3660*24*3600*1000 - 1, 1, false}, {1, 1, true}, {1000, 1, false},
	}},
}

func TestTimelinesOfTimeRateHold(t *testing.T) {
	for name, tt := range timelines {
		t.Run(name, func(t *testing.T) {
			formtest.EachForm(t, formtest.Of(tt.bucket), func(t *testing.T, l limit.Releaser) {
				for i, s := range tt.steps {
					time.Sleep(s.after * time.Millisecond)
					if formtest.Allow(t, l, s.n, s.want); t.Failed() {
						t.Fatalf("step %d", i)
					}
				}
			})
		})
	}
}

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
