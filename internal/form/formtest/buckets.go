package formtest

import (
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// epoch is the start of fake clocks.
var epoch = time.Unix(1_700_000_000, 0)

// on returns a limiter in memory that goes by a clock.
func on(t *testing.T, a Algorithm, now *time.Time) limit.Limiter {
	t.Helper()
	return redistest.Must(a.InMemory(limit.WithClock(func() time.Time { return *now })))(t)
}

// HasNoDrift expects of a bucket that it grants in 30 days of odd steps what exact arithmetic does, except
// that permits due within a microsecond may come in it. of returns a bucket to which some permits come
// in a time.
func HasNoDrift(t *testing.T, of func(capacity, permits int64, in time.Duration) Algorithm) {
	t.Helper()
	for _, tt := range []struct{ capacity, permits, in int64 }{ // in µs
		{5, 1, 2e6}, {1, 1, 3e6}, {100, 7, 60e6}, {3, 1, 10e6}, {10, 29, 31e6},
	} {
		now := epoch
		l := on(t, of(tt.capacity, tt.permits, time.Duration(tt.in)*time.Microsecond), &now)
		exact := tt.capacity * tt.in // in units of which permits come in a µs
		random := rand.New(rand.NewPCG(30, 0))
		for now.Sub(epoch) < 30*24*time.Hour {
			odd := 1 + random.Int64N(2*tt.in/tt.permits)
			now = now.Add(time.Duration(odd) * time.Microsecond)
			exact = min(exact+odd*tt.permits, tt.capacity*tt.in)
			over := exact - tt.in
			r, err := l.Allow(t.Context(), 1)
			if err != nil || r.Allowed != (over >= 0) && max(over, -over) > tt.permits {
				t.Fatalf("%+v, after %v: %+v %v, exactly %d", tt, now.Sub(epoch), r, err, exact)
			}
			if r.Allowed {
				exact -= tt.in
			}
		}
	}
}

// BearsAClock sets the clock of a limiter of 10 in a second. To and fro by 100 ms, it grants some
// permits, and none twice. Set back by an hour, it refuses for a wait, and has n permits then.
func BearsAClock(t *testing.T, a Algorithm, granted int, wait time.Duration, n int64) {
	t.Helper()
	now, got := epoch, 0
	l := on(t, a, &now)
	for i := range 40 {
		now = epoch.Add(time.Duration(i%2) * 100 * time.Millisecond)
		if redistest.Must(l.Allow(t.Context(), 1))(t).Allowed {
			got++
		}
	}
	if got != granted {
		t.Errorf("%d are granted in 100 ms, want %d", got, granted)
	}
	now = epoch
	l = on(t, a, &now)
	redistest.Must(l.Allow(t.Context(), 1))(t)
	now = epoch.Add(-time.Hour)
	for i := range time.Duration(3) {
		left := wait - i*40*time.Millisecond
		if r := redistest.Must(l.Allow(t.Context(), 1))(t); r.Allowed || r.RetryAfter != left {
			t.Errorf("%+v, want a retry after %v", r, left)
		}
		now = now.Add(40 * time.Millisecond)
	}
	now = now.Add(wait + 100*time.Millisecond)
	if r := redistest.Must(l.Allow(t.Context(), n))(t); !r.Allowed {
		t.Errorf("%+v, want all permits after the wait", r)
	}
}

// numbers are foreign data in the right form: a level and a time.
var numbers = []string{
	"0 1", "-1 1", "-1e300 1", "1e300 1", "1e999 1", "-1e999 1", "0 9007199254740993",
	"5 " + strings.Repeat("9", 300), "5 " + strings.Repeat("9", 400), "1e300 9007199254740993",
	"- 1", "e 1", "0 0", "-0 0", "5 2000000000000000", "1e14 946684800000000", "-1e14 946684800000000",
	"0 946684800000000", "10 946684800000000", "1e9 946684800000000", // nothing is left now
}

// BearsNumbers writes foreign numbers, in the right form, under the key of a limiter of 10 in an hour. They
// count as a limit at most, and are gone after two hours: their key expires then.
func BearsNumbers(t *testing.T, a Algorithm, key, behind string) {
	t.Helper()
	for _, text := range numbers {
		synctest.Test(t, func(t *testing.T) {
			rdb := NewMini(t).Client
			rdb.Set(t.Context(), key, text+behind, 0)
			l := redistest.Must(a.OnRedis(rdb, "name"))(t)
			granted := 0
			for range 30 {
				r, err := l.Allow(t.Context(), 1)
				if err != nil || max(r.RetryAfter, r.ResetAfter) > 2*time.Hour || r.Remaining > 10 {
					t.Fatalf("%s %q: %+v %v", key, text, r, err)
				}
				if r.Allowed {
					granted++
				}
			}
			ttl := rdb.PTTL(t.Context(), key).Val()
			if granted > 10 || ttl <= 0 || ttl > 2*time.Hour+time.Millisecond {
				t.Errorf("%s %q: %d are granted, the time to live is %v", key, text, granted, ttl)
			}
			time.Sleep(2 * time.Hour)
			Allow(t, l, 10, true)
		})
	}
}
