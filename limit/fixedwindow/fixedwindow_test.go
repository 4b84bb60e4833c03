package fixedwindow_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
	"github.com/redisson-go/rratelimiter/limit/limittest"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

func TestForms(t *testing.T) {
	formtest.Run(t, formtest.Suite{
		New: func(rate int64, interval time.Duration) formtest.Algorithm {
			return formtest.Of(fixedwindow.Window{Rate: rate, Interval: interval})
		},
		Kind: limittest.FixedWindow, Worst: 2,
		Grain: time.Millisecond,
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

// on returns a limiter on Redis. All have one name.
func on(t *testing.T, rdb redis.UniversalClient, rate int64, interval time.Duration) limit.Releaser {
	t.Helper()
	return redistest.Must(fixedwindow.Window{Rate: rate, Interval: interval}.OnRedis(rdb, "name"))(t)
}

// drain takes permits one by one, and returns how many were granted.
func drain(t *testing.T, l limit.Limiter) (granted int64) {
	t.Helper()
	for {
		r := redistest.Must(l.Allow(t.Context(), 1))(t)
		if !r.Allowed {
			return granted
		}
		granted++
	}
}

// Two versions of a program share a name, as during a deploy: the window of the longer interval lasts to its
// end, whichever version calls, and whichever began it.
func TestTheLongestIntervalHolds(t *testing.T) {
	for name, first := range map[string]int64{"the longer one begins": 0, "the shorter one begins": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rdb := redistest.MiniClient(t, redistest.Mini(t))
				hour, second := on(t, rdb, 100, time.Hour), on(t, rdb, 100, time.Second)
				granted := int64(0)
				if first > 0 {
					if _, err := second.Allow(t.Context(), first); err != nil {
						t.Fatal(err)
					}
					granted += first
					time.Sleep(time.Second / 2)
				}
				end := time.Now().Add(time.Hour - time.Duration(first)*time.Second/2)
				for range 20 {
					granted += drain(t, hour) + drain(t, second)
					time.Sleep(1050 * time.Millisecond)
				}
				if granted != 100 {
					t.Errorf("%d permits, want 100 in an hour", granted)
				}
				r, err := second.Allow(t.Context(), 1)
				if err != nil || r.RetryAfter != time.Until(end) {
					t.Errorf("%+v, %v; want to retry after %v", r, err, time.Until(end))
				}
				time.Sleep(r.RetryAfter)
				for range 3 { // only the shorter interval from now on
					if n := drain(t, second); n != 100 {
						t.Errorf("%d permits in a second, want 100", n)
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
}

// A limiter whose rate is less than what was taken releases exactly n permits.
func TestReleaseByALimiterOfASmallerRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		many, few := on(t, rdb, 100, time.Hour), on(t, rdb, 10, time.Hour)
		granted := drain(t, many)
		for range 10 {
			redistest.NoError(t, few.Release(t.Context(), 1))
			granted += drain(t, many)
		}
		if granted != 110 {
			t.Errorf("%d permits, want 100 and 10 released ones", granted)
		}
	})
}

// A grant is returned to its own window, however long that lasts by now.
func TestReturnGoesToItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := formtest.NewMini(t).Client
		hour, second := on(t, rdb, 10, time.Hour), on(t, rdb, 10, time.Second)
		b := formtest.Borrow(t, second)
		first := b.Take(4, true)
		if r, err := hour.Allow(t.Context(), 1); err != nil || r.ResetAfter != time.Hour {
			t.Fatalf("%+v, %v; want all back in an hour", r, err)
		}
		time.Sleep(time.Minute) // a window of a second would have ended
		b.Back(4, first)
		if n := drain(t, hour); n != 9 {
			t.Errorf("%d are granted, want 10 without 1", n)
		}
	})
}

// A grant is not returned to the window that follows an emptied one.
func TestReturnEndsWithItsWindow(t *testing.T) {
	formtest.EachForm(t, formtest.Of(fixedwindow.Window{Rate: 10, Interval: time.Hour}),
		func(t *testing.T, l limit.Releaser) {
			b := formtest.Borrow(t, l)
			first := b.Take(4, true)
			redistest.NoError(t, l.Release(t.Context(), 4))
			time.Sleep(time.Millisecond)
			b.Take(10, true)
			b.Back(4, first)
			b.Take(1, false)
		})
}

// A window ends after its length, also if its key was made to last, and only refusals follow.
func TestAWindowEndsThoughItsKeyWouldLast(t *testing.T) {
	for name, spoil := range map[string]func(ctx context.Context, rdb redis.Cmdable) error{
		"for ever": func(ctx context.Context, rdb redis.Cmdable) error {
			return rdb.Persist(ctx, "{name}:fixedwindow").Err()
		},
		"longer": func(ctx context.Context, rdb redis.Cmdable) error {
			return rdb.PExpire(ctx, "{name}:fixedwindow", 3*time.Hour).Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rdb := redistest.MiniClient(t, redistest.Mini(t))
				l := on(t, rdb, 10, time.Hour)
				for _, n := range []int64{1, 9, 1} {
					r, err := l.Allow(t.Context(), n)
					ttl := rdb.PTTL(t.Context(), "{name}:fixedwindow").Val()
					if err != nil || r.ResetAfter != time.Hour || ttl != time.Hour {
						t.Errorf("%+v, %v, the key lives for %v; want an hour", r, err, ttl)
					}
					redistest.NoError(t, spoil(t.Context(), rdb))
				}
				if n := drain(t, l); n != 0 {
					t.Errorf("%d are granted within the window", n)
				}
				time.Sleep(time.Hour)
				if n := drain(t, l); n != 10 {
					t.Errorf("%d are granted after the window, want 10", n)
				}
			})
		})
	}
}

// A text that no limiter has written, however long, counts as none: a window begins.
func TestForeignTextsCountAsNone(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	const began = " 1700000000000000 "
	written := regexp.MustCompile(`^           10 \d{16} 3600000$`)
	l := on(t, rdb, 10, time.Hour)
	for _, text := range []string{
		strings.Repeat("1", 3<<20), "5 3600000", "            5 3600000", "5" + began + "3600000",
		"            5" + began + "0", "            5" + began + "3600000" + strings.Repeat(" ", 6),
		"            5" + began + "316224000001", "          4 5" + began + "3600000",
		"9999999999999" + began + "3600000", "           -5" + began + "3600000",
		"          nan" + began + "3600000", "            5" + began + "nan",
		"            5                0 3600000", "            5              nan 3600000",
		"            5            1e300 3600000", "            5" + began + strings.Repeat("0", 100),
	} {
		redistest.NoError(t, rdb.Set(t.Context(), "{name}:fixedwindow", text, time.Minute).Err())
		for left := int64(9); left >= 0; left-- {
			r, err := l.Allow(t.Context(), 1)
			if err != nil || !r.Allowed || r.Remaining != left {
				t.Fatalf("%.30q: %+v, %v; want %d left", text, r, err, left)
			}
		}
		if got := rdb.Get(t.Context(), "{name}:fixedwindow").Val(); !written.MatchString(got) {
			t.Errorf("%.50q becomes %.50q", text, got)
		}
	}
}
