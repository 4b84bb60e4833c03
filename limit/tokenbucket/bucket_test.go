package tokenbucket_test

import (
	"math"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit/limittest"
	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// Capacity and rate differ, and the rate may be a fraction: half a permit a second fills a bucket of one in
// two seconds.
func TestBucketForms(t *testing.T) {
	formtest.Run(t, formtest.Suite{
		New: func(rate int64, interval time.Duration) formtest.Algorithm {
			b := tokenbucket.Bucket{Capacity: rate, Rate: float64(rate) / 2, Interval: interval / 2}
			return formtest.Of(b)
		},
		Kind: limittest.TokenBucket, Worst: 2,
	})
}

func TestBucketBounds(t *testing.T) {
	formtest.Refuses(t, map[string]tokenbucket.Bucket{
		"Capacity is 0":             {0, 1, time.Second},
		"Capacity is 1099511627777": {1<<40 + 1, 1, time.Second},
		"Rate is 0":                 {1, 0, time.Second},
		"Rate is -1":                {1, -1, time.Second},
		"Rate is NaN":               {1, math.NaN(), time.Second},
		"Rate is +Inf":              {1, math.Inf(1), time.Second},
		"Interval is 999.999µs":     {1, 1, time.Millisecond - 1},
		"Interval is 87841h0m0s":    {1, 1, 87841 * time.Hour},
		"fills in 1e+09 s":          {1, 1e-9, time.Second},
		"fills in +Inf s":           {1, math.SmallestNonzeroFloat64, time.Second},
		"fills in 1.1e+12 s":        {1 << 40, 1, time.Second},
	})
}

// Limit is the capacity, and Interval the time in which the bucket fills.
func TestResultsHaveTheNumbersOfTheBucket(t *testing.T) {
	for _, tt := range []struct {
		b    tokenbucket.Bucket
		want time.Duration
	}{
		{tokenbucket.Bucket{Capacity: 100, Rate: 10, Interval: time.Second}, 10 * time.Second},
		{tokenbucket.Bucket{Capacity: 1, Rate: 0.5, Interval: time.Second}, 2 * time.Second},
		{tokenbucket.Bucket{Capacity: 1, Rate: 3, Interval: time.Second}, 333334 * time.Microsecond},
		{tokenbucket.Bucket{Capacity: 1, Rate: 1e9, Interval: time.Second}, time.Microsecond},
	} {
		l := redistest.Must(tt.b.InMemory())(t)
		r, err := l.Allow(t.Context(), 1)
		if err != nil || r.Limit != tt.b.Capacity || r.Interval != tt.want || r.Remaining != tt.b.Capacity-1 {
			t.Errorf("%+v: %+v %v, want Interval %v", tt.b, r, err, tt.want)
		}
	}
}

// Return leaves out the tokens that have come since.
func TestReturnLeavesOutTokensThatCame(t *testing.T) {
	formtest.ReturnsInPart(t, formtest.Of(tokenbucket.Bucket{Capacity: 10, Rate: 10, Interval: time.Hour}))
}

func TestBucketHasNoDriftInThirtyDays(t *testing.T) {
	formtest.HasNoDrift(t, func(capacity, permits int64, in time.Duration) formtest.Algorithm {
		return formtest.Of(tokenbucket.Bucket{capacity, float64(permits) / in.Seconds(), time.Second})
	})
}

func TestBucketBearsAClock(t *testing.T) {
	formtest.BearsAClock(t, formtest.Of(tokenbucket.Bucket{3, 10, time.Second}), 4, 100*time.Millisecond, 3)
}

func TestBucketBearsForeignNumbers(t *testing.T) {
	formtest.BearsNumbers(t, formtest.Of(tokenbucket.Bucket{10, 10, time.Hour}), "{name}:tokenbucket", "")
}
