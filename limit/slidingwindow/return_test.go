package slidingwindow_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
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
				l := redistest.Must(a.OnRedis(redistest.MiniClient(t, redistest.Mini(t)), "name"))(t)
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
				redistest.NoError(t, l.(form.Lender).Return(t.Context(), "", 4, first))
				at(600, 6, false)
				at(600, 5, true)
				at(1050, 1, false) // what was given back does not come back once more
				at(1450, 1, false)
				at(1595, 4, true)
				at(1595, 2, false)
				redistest.NoError(t, l.(form.Lender).Return(t.Context(), "", 4, first))
				at(1595, 2, false)
			})
		})
	}
}

// What is given back behind many others is back, once, and the key expires as before.
func TestReturnBehindMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		l := redistest.Must(slidingwindow.Log{Rate: 1000, Interval: time.Hour}.OnRedis(rdb, "name"))(t)
		lender := l.(form.Lender)
		var answers []form.Answer
		for range 600 {
			_, a, err := lender.Lend(t.Context(), "", 1)
			if err != nil {
				t.Fatal(err)
			}
			answers = append(answers, a)
			time.Sleep(time.Millisecond)
		}
		_, two, err := lender.Lend(t.Context(), "", 2)
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, two)
		for _, tt := range []struct{ which, left int64 }{
			{0, 399}, {0, 399}, {2, 400}, {300, 401}, {400, 402}, {599, 403}, {600, 404},
		} {
			redistest.NoError(t, lender.Return(t.Context(), "", 1, answers[tt.which]))
			r, err := l.Allow(t.Context(), 1000) // a look: so many are not there
			if err != nil || r.Allowed || r.Remaining != tt.left {
				t.Errorf("%d was given back: %+v, %v; want %d left", tt.which, r, err, tt.left)
			}
			if ttl := rdb.PTTL(t.Context(), "{name}:slidinglog").Val(); ttl < 59*time.Minute {
				t.Errorf("the key expires in %v", ttl)
			}
		}
	})
}

// A record that is given back in part is the only one: its key expires all the same.
func TestReturnOfAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		l := redistest.Must(slidingwindow.Log{Rate: 10, Interval: time.Hour}.OnRedis(rdb, "name"))(t)
		lender := l.(form.Lender)
		_, a, err := lender.Lend(t.Context(), "", 4)
		if err == nil {
			err = lender.Return(t.Context(), "", 1, a)
		}
		if err != nil {
			t.Error(err)
		}
		if ttl := rdb.PTTL(t.Context(), "{name}:slidinglog").Val(); ttl <= 0 {
			t.Errorf("the key expires in %v", ttl)
		}
	})
}
