package tokenbucket_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/limittest"
	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// Capacity and rate are apart, and the rate may have a fraction: half a permit a second
// fills a bucket of one in two.
func TestBucketForms(t *testing.T) {
	formtest.Run(t, formtest.Suite{
		New: func(rate int64, interval time.Duration) formtest.Algorithm {
			return tokenbucket.Bucket{Capacity: rate, Rate: float64(rate) / 2, Interval: interval / 2}
		},
		Kind: limittest.TokenBucket, Worst: 2,
	})
}

func TestBucketBounds(t *testing.T) {
	good := tokenbucket.Bucket{Capacity: 1, Rate: 1, Interval: time.Second}
	for text, change := range map[string]func(b *tokenbucket.Bucket){
		"Capacity is 0":             func(b *tokenbucket.Bucket) { b.Capacity = 0 },
		"Capacity is 1099511627777": func(b *tokenbucket.Bucket) { b.Capacity = 1<<40 + 1 },
		"Rate is 0":                 func(b *tokenbucket.Bucket) { b.Rate = 0 },
		"Rate is -1":                func(b *tokenbucket.Bucket) { b.Rate = -1 },
		"Rate is NaN":               func(b *tokenbucket.Bucket) { b.Rate = math.NaN() },
		"Rate is +Inf":              func(b *tokenbucket.Bucket) { b.Rate = math.Inf(1) },
		"Interval is 999.999µs":     func(b *tokenbucket.Bucket) { b.Interval = time.Millisecond - 1 },
		"Interval is 87841h0m0s":    func(b *tokenbucket.Bucket) { b.Interval = 87841 * time.Hour },
		"fills in 1e+09 s":          func(b *tokenbucket.Bucket) { b.Rate = 1e-9 },
		"fills in +Inf s":           func(b *tokenbucket.Bucket) { b.Rate = math.SmallestNonzeroFloat64 },
		"fills in 1.1e+12 s":        func(b *tokenbucket.Bucket) { b.Capacity = 1 << 40 },
	} {
		b := good
		change(&b)
		l, err := b.InMemory()
		if l != nil || !errors.Is(err, limit.ErrInvalidArgument) || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %q", b, err, text)
		}
	}
}

// What is asked for is never more than fits, so the numbers of a Result are those of the
// bucket.
func TestBucketNumbers(t *testing.T) {
	for _, tt := range []struct {
		b    tokenbucket.Bucket
		want time.Duration
	}{
		{tokenbucket.Bucket{Capacity: 100, Rate: 10, Interval: time.Second}, 10 * time.Second},
		{tokenbucket.Bucket{Capacity: 1, Rate: 0.5, Interval: time.Second}, 2 * time.Second},
		{tokenbucket.Bucket{Capacity: 1, Rate: 3, Interval: time.Second}, 333334 * time.Microsecond},
		{tokenbucket.Bucket{Capacity: 1, Rate: 1e9, Interval: time.Second}, time.Microsecond},
	} {
		l, err := tt.b.InMemory()
		if err != nil {
			t.Fatal(err)
		}
		r, err := l.Allow(t.Context(), 1)
		if err != nil || r.Limit != tt.b.Capacity || r.Interval != tt.want || r.Remaining != tt.b.Capacity-1 {
			t.Errorf("%+v: %+v %v, want Interval %v", tt.b, r, err, tt.want)
		}
	}
}

// Tokens that have come since permits were taken are not given back with them.
func TestReturnInPart(t *testing.T) {
	formtest.ReturnsInPart(t, tokenbucket.Bucket{Capacity: 10, Rate: 10, Interval: time.Hour})
}
