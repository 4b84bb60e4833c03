package slidingwindow_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/limittest"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

func TestLogForms(t *testing.T) {
	formtest.Run(t, formtest.Suite{New: log, Kind: limittest.SlidingLog, Worst: 1})
}

// FixedWindow also describes how the permits of a Counter come back.
func TestCounterForms(t *testing.T) {
	for _, parts := range []int{0, 1} {
		t.Run(fmt.Sprintf("%d parts", parts), func(t *testing.T) {
			formtest.Run(t, formtest.Suite{New: counterOf(parts), Kind: limittest.FixedWindow, Worst: 2})
		})
	}
}

func TestFormsOfManyPartsDecideAlike(t *testing.T) {
	for _, parts := range []int{3, 100} {
		formtest.Alike(t, formtest.Suite{New: counterOf(parts), Worst: 2})
	}
}

// A maker returns an algorithm.
type maker = func(rate int64, interval time.Duration) formtest.Algorithm

func log(rate int64, interval time.Duration) formtest.Algorithm {
	return formtest.Of(slidingwindow.Log{Rate: rate, Interval: interval})
}

func counterOf(parts int) maker {
	return func(rate int64, interval time.Duration) formtest.Algorithm {
		return formtest.Of(slidingwindow.Counter{Rate: rate, Interval: interval, Parts: parts})
	}
}

func TestBounds(t *testing.T) {
	formtest.Refuses(t, map[string]slidingwindow.Log{
		"Rate is 0":              {Interval: time.Second},
		"Interval is 0s":         {Rate: 1},
		"Interval is 87840h0m1s": {Rate: 1, Interval: 3660*24*time.Hour + time.Second},
	})
	formtest.Refuses(t, map[string]slidingwindow.Counter{
		"Rate is -1":              {Rate: -1, Interval: time.Second},
		"Rate is 1099511627777":   {Rate: 1<<40 + 1, Interval: time.Second},
		"Interval is 999.999µs":   {Rate: 1, Interval: time.Millisecond - 1},
		"Parts is -1, must be 0 ": {Rate: 1, Interval: time.Second, Parts: -1},
		"Parts is 101, must be 0": {Rate: 1, Interval: time.Second, Parts: 101},
	})
}

// borrow returns a Borrower of a limiter on Redis.
func borrow(t *testing.T, rdb redis.UniversalClient, a formtest.Algorithm) formtest.Borrower {
	t.Helper()
	return formtest.Borrow(t, on(t, rdb, a))
}

// A late Return gives back permits of its own grant: those taken since count for their own time.
func TestALateReturnGivesBackItsOwnGrant(t *testing.T) {
	for name, of := range map[string]maker{"Log": log, "Counter": counterOf(0)} {
		t.Run(name, func(t *testing.T) {
			formtest.EachForm(t, of(10, time.Second), func(t *testing.T, l limit.Releaser) {
				start, b := time.Now(), formtest.Borrow(t, l)
				at := func(ms time.Duration, n int64, want bool) form.Decision {
					t.Helper()
					time.Sleep(time.Until(start.Add(ms * time.Millisecond)))
					return b.Take(n, want)
				}
				first := at(0, 4, true)
				at(500, 5, true)
				b.Back(4, first)
				at(600, 6, false)
				at(600, 5, true)
				at(1050, 1, false) // returned permits do not come back once more
				at(1450, 1, false)
				at(1595, 4, true)
				at(1595, 2, false)
				b.Back(4, first)
				at(1595, 2, false)
			})
		})
	}
}

// Return finds a record among many, gives it back once, and keeps the time to live of the key.
func TestReturnAmongManyRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := formtest.NewMini(t).Client
		b := borrow(t, rdb, formtest.Of(slidingwindow.Log{Rate: 1000, Interval: time.Hour}))
		var grants []form.Decision
		for range 600 {
			grants = append(grants, b.Take(1, true))
			time.Sleep(time.Millisecond)
		}
		grants = append(grants, b.Take(2, true))
		for _, tt := range []struct{ which, left int64 }{
			{0, 399}, {0, 399}, {2, 400}, {300, 401}, {400, 402}, {599, 403}, {600, 404},
		} {
			b.Back(1, grants[tt.which])
			if d := b.Take(1000, false); d.Remaining != tt.left {
				t.Errorf("grant %d was returned: %+v; want %d left", tt.which, d, tt.left)
			}
			if ttl := rdb.PTTL(t.Context(), "{name}:slidinglog").Val(); ttl < 59*time.Minute {
				t.Errorf("the key expires in %v", ttl)
			}
		}
	})
}

// The key of a single record expires, also if a part of the record was returned.
func TestTheKeyExpiresAfterAReturnInPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := formtest.NewMini(t).Client
		b := borrow(t, rdb, formtest.Of(slidingwindow.Log{Rate: 10, Interval: time.Hour}))
		b.Back(1, b.Take(4, true))
		if ttl := rdb.PTTL(t.Context(), "{name}:slidinglog").Val(); ttl <= 0 {
			t.Errorf("the key expires in %v", ttl)
		}
	})
}
