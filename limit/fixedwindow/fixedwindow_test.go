package fixedwindow_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
	"github.com/redisson-go/rratelimiter/limit/limittest"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

func TestForms(t *testing.T) {
	formtest.Run(t, formtest.Suite{
		New: func(rate int64, interval time.Duration) formtest.Algorithm {
			return fixedwindow.Window{Rate: rate, Interval: interval}
		},
		Kind: limittest.FixedWindow, Worst: 2,
		Grain: time.Millisecond,
	})
}

// The flaw: twice the rate within an interval, around the end of a window.
func TestTwiceAroundTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := redistest.Must(fixedwindow.Window{Rate: 10, Interval: time.Second}.InMemory())(t)
		granted := int64(0)
		take := func(n int64) {
			if r, err := l.Allow(t.Context(), n); err == nil && r.Allowed {
				granted += n
			}
		}
		take(1) // the window begins
		time.Sleep(999 * time.Millisecond)
		granted = 0
		take(9)
		time.Sleep(time.Millisecond)
		take(10)
		if granted != 19 {
			t.Errorf("%d permits in a millisecond, want 19 of 10", granted)
		}
	})
}

func TestBounds(t *testing.T) {
	formtest.Refuses(t, map[string]fixedwindow.Window{
		"Rate is 0":              {Interval: time.Second},
		"Rate is -1":             {Rate: -1, Interval: time.Second},
		"Rate is 1099511627777":  {Rate: 1<<40 + 1, Interval: time.Second},
		"Interval is 0s":         {Rate: 1},
		"Interval is 999.999µs":  {Rate: 1, Interval: time.Millisecond - 1},
		"Interval is 87840h0m1s": {Rate: 1, Interval: 3660*24*time.Hour + time.Second},
	})
}
