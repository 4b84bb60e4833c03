package leakybucket_test

import (
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit/leakybucket"
	"github.com/redisson-go/rratelimiter/limit/limittest"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// Capacity and rate are apart.
func TestMeterForms(t *testing.T) {
	formtest.Run(t, formtest.Suite{
		New: func(rate int64, interval time.Duration) formtest.Algorithm {
			return leakybucket.Meter{Capacity: rate, Rate: 7 * rate, Interval: 7 * interval}
		},
		Kind: limittest.TokenBucket, Worst: 2,
	})
}

func TestMeterBounds(t *testing.T) {
	formtest.Refuses(t, map[string]leakybucket.Meter{
		"Capacity is 0":             {Rate: 1, Interval: time.Second},
		"Capacity is 1099511627777": {Capacity: 1<<40 + 1, Rate: 1, Interval: time.Second},
		"Rate is -1":                {Capacity: 1, Rate: -1, Interval: time.Second},
		"Interval is 0s":            {Capacity: 1, Rate: 1},
		"takes 1e+09 s":             {Capacity: 1e9, Rate: 1, Interval: time.Second},
	})
}

// Water that has leaked out since permits were taken is not given back with them.
func TestReturnInPart(t *testing.T) {
	formtest.ReturnsInPart(t, leakybucket.Meter{Capacity: 10, Rate: 10, Interval: time.Hour})
}
