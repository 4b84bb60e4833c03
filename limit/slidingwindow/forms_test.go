package slidingwindow_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit/limittest"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

func TestLogForms(t *testing.T) {
	formtest.Run(t, formtest.Suite{
		New: func(rate int64, interval time.Duration) formtest.Algorithm {
			return slidingwindow.Log{Rate: rate, Interval: interval}
		},
		Kind: limittest.SlidingLog, Worst: 1,
	})
}

// FixedWindow describes how the permits of a Counter come back, too.
func TestCounterForms(t *testing.T) {
	for _, parts := range []int{0, 1} {
		t.Run(fmt.Sprintf("%d parts", parts), func(t *testing.T) {
			formtest.Run(t, formtest.Suite{
				New: func(rate int64, interval time.Duration) formtest.Algorithm {
					return slidingwindow.Counter{Rate: rate, Interval: interval, Parts: parts}
				},
				Kind: limittest.FixedWindow, Worst: 2,
			})
		})
	}
}

func TestBounds(t *testing.T) {
	formtest.Refuses(t, map[string]formtest.Algorithm{
		"Rate is 0":               slidingwindow.Log{Interval: time.Second},
		"Rate is -1":              slidingwindow.Counter{Rate: -1, Interval: time.Second},
		"Rate is 1099511627777":   slidingwindow.Counter{Rate: 1<<40 + 1, Interval: time.Second},
		"Interval is 0s":          slidingwindow.Log{Rate: 1},
		"Interval is 999.999µs":   slidingwindow.Counter{Rate: 1, Interval: time.Millisecond - 1},
		"Interval is 87840h0m1s":  slidingwindow.Log{Rate: 1, Interval: 3660*24*time.Hour + time.Second},
		"Parts is -1, must be 0 ": slidingwindow.Counter{Rate: 1, Interval: time.Second, Parts: -1},
		"Parts is 101, must be 0": slidingwindow.Counter{Rate: 1, Interval: time.Second, Parts: 101},
	})
}
