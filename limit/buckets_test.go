package limit_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/leakybucket"
	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
)

// bucketPromises are those of limits of 10 in an hour whose permits come back one by one.
var bucketPromises = map[string]string{
	"Return leaves out the part that has come back": "" +
		"take 4 as a; sleep 12m; take 8; back 4 a; refuse 3; take 2",
	"a clock set to and fro by a permit's time grants each once": "" +
		"take 10; " + strings.Repeat("clock 6m; try 1; clock -6m; try 1; ", 5) + "granted 11",
	"set back by a day, a full bucket leaks as ever": "" +
		"take 1; clock -24h; refuse 1 retry 6m; sleep 2m; refuse 1 retry 4m; sleep 58m; take 10",
}

func TestBucketPromises(t *testing.T) {
	for _, a := range []formtest.Algorithm{
		formtest.Of(tokenbucket.Bucket{Capacity: 10, Rate: 10, Interval: time.Hour}),
		formtest.Of(leakybucket.Meter{Capacity: 10, Rate: 10, Interval: time.Hour}),
	} {
		formtest.Tell(t, a, bucketPromises)
	}
}

func TestBucketsHaveNoDriftInThirtyDays(t *testing.T) {
	hasNoDrift(t, func(capacity, permits int64, in time.Duration) formtest.Algorithm {
		return formtest.Of(tokenbucket.Bucket{Capacity: capacity, Rate: float64(permits) / in.Seconds(),
			Interval: time.Second})
	})
	hasNoDrift(t, func(capacity, permits int64, in time.Duration) formtest.Algorithm {
		return formtest.Of(leakybucket.Meter{Capacity: capacity, Rate: permits, Interval: in})
	})
}

// hasNoDrift expects of a bucket that it grants in 30 days of odd steps what exact arithmetic does, except
// that permits due within a microsecond may come in it. of returns a bucket to which some permits come
// in a time.
func hasNoDrift(t *testing.T, of func(capacity, permits int64, in time.Duration) formtest.Algorithm) {
	t.Helper()
	for _, tt := range []struct{ capacity, permits, in int64 }{ // in µs
		{5, 1, 2e6}, {1, 1, 3e6}, {100, 7, 60e6}, {3, 1, 10e6}, {10, 29, 31e6},
	} {
		epoch := time.Unix(1_700_000_000, 0)
		now := epoch
		l := redistest.Must(of(tt.capacity, tt.permits, time.Duration(tt.in)*time.Microsecond).
			InMemory(limit.WithClock(func() time.Time { return now })))(t)
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

// numbers are foreign data in the right form: a level and a time.
var numbers = []string{
	"0 1", "-1 1", "-1e300 1", "1e300 1", "1e999 1", "-1e999 1", "0 9007199254740993",
	"5 " + strings.Repeat("9", 300), "5 " + strings.Repeat("9", 400), "1e300 9007199254740993",
	"- 1", "e 1", "0 0", "-0 0", "5 2000000000000000", "1e14 946684800000000", "-1e14 946684800000000",
	"0 946684800000000", "10 946684800000000", "1e9 946684800000000", // nothing is left now
}

// Foreign numbers, in the right form, under the key of a limiter of 10 in an hour count as a limit at most,
// and are gone after two hours: their key expires then.
func TestBucketsBearForeignNumbers(t *testing.T) {
	for key, a := range map[string]formtest.Algorithm{
		"{name}:tokenbucket": formtest.Of(tokenbucket.Bucket{Capacity: 10, Rate: 10, Interval: time.Hour}),
		"{name}:leakybucket": formtest.Of(leakybucket.Meter{Capacity: 10, Rate: 10, Interval: time.Hour}),
		"{name}:leakyqueue":  leakybucket.Queue{Rate: 10, Interval: time.Hour, Capacity: 10},
	} {
		t.Run(key, func(t *testing.T) { bearsNumbers(t, a, key) })
	}
}

func bearsNumbers(t *testing.T, a formtest.Algorithm, key string) {
	t.Helper()
	for _, text := range numbers {
		if key == "{name}:leakyqueue" {
			text += " 9007199254740993"
		}
		synctest.Test(t, func(t *testing.T) {
			rdb := formtest.NewMini(t).Client
			rdb.Set(t.Context(), key, text, 0)
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
			formtest.Allow(t, l, 10, true)
		})
	}
}
