package tokenbucket_test

import (
	"math"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

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
	for numbers, b := range map[string]tokenbucket.Bucket{
		"limit 100 interval 10s left 99":   {100, 10, time.Second},
		"limit 1 interval 2s left 0":       {1, 0.5, time.Second},
		"limit 1 interval 333334us left 0": {1, 3, time.Second},
		"limit 1 interval 1us left 0":      {1, 1e9, time.Second},
	} {
		formtest.Tell(t, formtest.Of(b), map[string]string{numbers: "take 1 " + numbers})
	}
}

// The memory of docs/benchmarks.md: Redis keeps a bucket of up to 999 whole tokens as one number.
func TestRedisKeepsWholeTokensAsOneNumber(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	b := tokenbucket.Bucket{Capacity: 1000, Rate: 1000, Interval: time.Hour}
	redistest.Must(redistest.Must(b.OnRedis(rdb, "name"))(t).Allow(t.Context(), 1))(t)
	if got := rdb.ObjectEncoding(t.Context(), "{name}:tokenbucket").Val(); got != "int" {
		t.Errorf("the encoding is %q", got)
	}
}
