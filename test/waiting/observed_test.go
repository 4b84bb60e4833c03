package waiting_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// An Observation says how many callers shared the deciding request, how long the call waited for permits, and
// by how many permits it has corrected the value.
func TestObservationsSayHowCallsWent(t *testing.T) {
	GatedBubble(t, 10, time.Second, func(l *Limiter) {
		o := &Observations{}
		l = l.With(rratelimiter.WithObserver(o))
		open := l.Gate.Shut()
		for range 4 { // the first one asks alone
			l.Comes(l.Context(), 1, 0)
		}
		open()
		l.Sleep(300 * time.Millisecond)
		var batches []int
		for _, seen := range o.All() {
			batches = append(batches, seen.Batch)
		}
		if slices.Sort(batches); !slices.Equal(batches, []int{1, 3, 3, 3}) {
			t.Errorf("callers of the requests: %v", batches)
		}

		l.SetKey(l.ValueKey(), 20)
		l.Takes(1)
		if drift := o.All()[4].Drift; drift != -14 {
			t.Errorf("a value of 20 where 6 are left has a drift of %d", drift)
		}

		const waited = 700 * time.Millisecond
		l.Took(6, time.Second, waited)
		seen := o.All()[5]
		if seen.Permits != 6 || seen.Batch != 1 || seen.Queued != waited || seen.Took != waited {
			t.Errorf("%+v, want a wait of %v for 6 permits", seen, waited)
		}
	})
}
