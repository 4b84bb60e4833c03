package slidingwindow_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
)

// What a call gives back late is its own: what others have taken since counts for its time.
func TestReturnIsOfItsOwnTime(t *testing.T) {
	for name, a := range map[string]formtest.Algorithm{
		"Log":     slidingwindow.Log{Rate: 10, Interval: time.Second},
		"Counter": slidingwindow.Counter{Rate: 10, Interval: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				l, err := a.OnRedis(redistest.MiniClient(t, redistest.Mini(t)), "name")
				if err != nil {
					t.Fatal(err)
				}
				at := func(ms time.Duration, n int64, want bool) form.Answer {
					t.Helper()
					time.Sleep(time.Until(start.Add(ms * time.Millisecond)))
					r, a, err := l.(form.Lender).Lend(t.Context(), "", n)
					if err != nil || r.Allowed != want {
						t.Errorf("%d at %d ms: %+v, %v; want %v", n, ms, r, err, want)
					}
					return a
				}
				first := at(0, 4, true)
				at(500, 5, true)
				if err := l.(form.Lender).Return(t.Context(), "", 4, first); err != nil {
					t.Error(err)
				}
				at(600, 6, false)
				at(600, 5, true)
				at(1050, 1, false) // what was given back does not come back once more
				at(1450, 1, false)
				at(1595, 4, true)
				at(1595, 2, false)
				if err := l.(form.Lender).Return(t.Context(), "", 4, first); err != nil {
					t.Error(err)
				}
				at(1595, 2, false)
			})
		})
	}
}

// What was taken before very many others did comes back by itself.
func TestReturnBehindMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := slidingwindow.Log{Rate: 1000, Interval: time.Hour}.
			OnRedis(redistest.MiniClient(t, redistest.Mini(t)), "name")
		if err != nil {
			t.Fatal(err)
		}
		var answers []form.Answer
		var last limit.Result
		for range 151 {
			r, a, err := l.(form.Lender).Lend(t.Context(), "", 1)
			if err != nil {
				t.Fatal(err)
			}
			answers, last = append(answers, a), r
			time.Sleep(time.Millisecond)
		}
		for _, tt := range []struct{ which, back int64 }{
			{0, 0}, {50, 0}, {51, 1}, {51, 1}, {150, 2}, {150, 2},
		} {
			if err := l.(form.Lender).Return(t.Context(), "", 1, answers[tt.which]); err != nil {
				t.Error(err)
			}
			r, a, err := l.(form.Lender).Lend(t.Context(), "", 1)
			if err != nil || r.Remaining != last.Remaining-1+tt.back {
				t.Errorf("%d was given back: %+v, %v; before %+v", tt.which, r, err, last)
			}
			if err := l.(form.Lender).Return(t.Context(), "", 1, a); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Millisecond)
		}
	})
}
