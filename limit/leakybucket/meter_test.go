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

// Capacity and rate differ.
func TestMeterForms(t *testing.T) {
	formtest.Run(t, formtest.Suite{
		New: func(rate int64, interval time.Duration) formtest.Algorithm {
			return formtest.Of(leakybucket.Meter{Capacity: rate, Rate: 7 * rate, Interval: 7 * interval})
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
		"fills in 1e+09 s":          {Capacity: 1e9, Rate: 1, Interval: time.Second},
	})
}

// Return leaves out the water that has leaked out since.
func TestReturnLeavesOutWaterThatLeaked(t *testing.T) {
	formtest.ReturnsInPart(t, formtest.Of(leakybucket.Meter{Capacity: 10, Rate: 10, Interval: time.Hour}))
}

func TestMeterHasNoDriftInThirtyDays(t *testing.T) {
	formtest.HasNoDrift(t, func(capacity, permits int64, in time.Duration) formtest.Algorithm {
		return formtest.Of(leakybucket.Meter{capacity, permits, in})
	})
}

// Set far back, the clock leaves a full bucket, which leaks as ever, and a queue that owes two intervals.
func TestLimitersBearAClock(t *testing.T) {
	formtest.BearsAClock(t, formtest.Of(leakybucket.Meter{3, 10, time.Second}), 4, 100*time.Millisecond, 3)
	formtest.BearsAClock(t, leakybucket.Queue{10, time.Second, 1}, 2, 2*time.Second, 10)
}

func TestLimitersBearForeignNumbers(t *testing.T) {
	formtest.BearsNumbers(t, formtest.Of(leakybucket.Meter{10, 10, time.Hour}), "{name}:leakybucket", "")
	formtest.BearsNumbers(t, leakybucket.Queue{10, time.Hour, 10}, "{name}:leakyqueue", " 9007199254740993")
}
