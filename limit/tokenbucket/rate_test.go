package tokenbucket

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// A step of a timeline: after a time, n permits are granted or not.
type step struct {
	after time.Duration
	n     int64
	want  bool
}

// timelines are those of the tests of golang.org/x/time/rate.
var timelines = map[string]struct {
	bucket Bucket
	steps  []step
}{
	"TestLimiterBurst1": {Bucket{1, 10, time.Second}, []step{
		{0, 1, true}, {0, 1, false}, {0, 1, false},
		{100, 1, true}, {0, 1, false}, {0, 1, false},
		{100, 1, true}, {0, 1, false},
	}},
	"TestLimiterBurst3": {Bucket{3, 10, time.Second}, []step{
		{0, 2, true}, {0, 2, false}, {0, 1, true}, {0, 1, false},
		{100, 3, false}, {100, 1, true}, {100, 1, true}, {100, 1, true}, {0, 1, true}, {0, 1, false},
		{0, 1, false}, {500, 3, true}, {0, 1, false},
	}},
	"TestLimiter_noTruncationErrors": {Bucket{1, 0.7692307692307693, time.Second}, []step{
		{0, 1, true}, {1299, 1, false}, {1, 1, true},
	}},
	"TestSimultaneousRequests": {Bucket{5, 1, time.Second}, []step{
		{0, 1, true}, {0, 1, true}, {0, 1, true}, {0, 1, true}, {0, 1, true}, {0, 1, false}, {0, 1, false},
	}},
	"a rate that no float64 has": {Bucket{1, 1, time.Minute}, []step{
		{0, 1, true}, {59_999, 1, false}, {1, 1, true}, {60_000, 1, true}, {59_999, 1, false}, {1, 1, true},
	}},
	"half a permit": {Bucket{1, 0.5, time.Second}, []step{
		{0, 1, true}, {1999, 1, false}, {1, 1, true}, {10_000, 1, true}, {0, 1, false},
	}},
	"a huge rate": {Bucket{1000, 1 << 40, time.Millisecond}, []step{
		{0, 1000, true}, {0, 1000, true}, {1, 1000, true},
	}},
	"a huge bucket": {Bucket{1 << 40, 1 << 40, time.Second}, []step{
		{0, 1 << 40, true}, {0, 1100, false}, {500, 1 << 39, true}, {0, 1100, false}, {1000, 1 << 40, true},
	}},
	"the slowest": {Bucket{1, 1, 3660 * 24 * time.Hour}, []step{
		{0, 1, true}, {3660*24*3600*1000 - 1, 1, false}, {1, 1, true}, {1000, 1, false},
	}},
}

func TestTimelinesOfTimeRate(t *testing.T) {
	for name, tt := range timelines {
		forms := map[string]func(t *testing.T) (limit.Releaser, error){
			"memory": func(*testing.T) (limit.Releaser, error) { return tt.bucket.InMemory() },
			"Redis": func(t *testing.T) (limit.Releaser, error) {
				return tt.bucket.OnRedis(redistest.MiniClient(t, redistest.Mini(t)), "name")
			},
		}
		for form, of := range forms {
			t.Run(name+"/"+form, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l, err := of(t)
					for i, s := range tt.steps {
						time.Sleep(s.after * time.Millisecond)
						var r limit.Result
						if err == nil {
							r, err = l.Allow(t.Context(), s.n)
						}
						if err != nil || r.Allowed != s.want {
							t.Fatalf("step %d: Allow(%d): %+v %v, want %v", i, s.n, r, err, s.want)
						}
					}
				})
			})
		}
	}
}

// A bucket and a limiter of golang.org/x/time/rate have the same tokens, to the last bit,
// on random timelines. A step that one of them grants, the other grants.
func TestBucketIsThatOfTimeRate(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 3))
		capacity := 1 + random.Int64N([]int64{1, 3, 50, 1e6, 1 << 40}[random.IntN(5)])
		perSecond := math.Exp(random.Float64()*40 - 12)
		if random.IntN(2) == 0 {
			perSecond = float64(1 + random.Int64N(1000))
		}
		perSecond = max(perSecond, float64(capacity)/3e8) // it fills in 10 years
		b, s := newBucket(float64(capacity), perSecond), state{}
		theirs := rate.NewLimiter(rate.Limit(perSecond), int(capacity))
		now := time.Unix(1_700_000_000, 0)
		for i := range 300 {
			pause := random.Float64() * float64(random.Int64N(4)) * 1e6 * float64(capacity) / perSecond
			if random.IntN(3) == 0 {
				pause = 1e6 / perSecond
			}
			now = now.Add(time.Duration(min(pause, 1e12)) * time.Microsecond)
			n := 1 + random.Int64N(capacity)
			if random.IntN(2) == 0 {
				n = 1
			}
			if tokens, want := b.at(&s, now.UnixMicro()), theirs.TokensAt(now); tokens != want {
				t.Fatalf("seed %d, step %d: %v tokens, and they have %v", seed, i, tokens, want)
			}
			a := b.take(&s, now.UnixMicro(), n)
			if a.Allowed != theirs.AllowN(now, int(n)) {
				t.Fatalf("seed %d, step %d: %d are granted: %v", seed, i, n, a.Allowed)
			}
			if !a.Allowed && !theirs.AllowN(now.Add(time.Duration(a.Retry)*time.Microsecond), int(n)) {
				t.Fatalf("seed %d, step %d: a retry after %d µs is too early", seed, i, a.Retry)
			} else if !a.Allowed {
				now = now.Add(time.Duration(a.Retry) * time.Microsecond)
				if !b.take(&s, now.UnixMicro(), n).Allowed {
					t.Fatalf("seed %d, step %d: a retry after %d µs is refused", seed, i, a.Retry)
				}
			}
		}
	}
}

// In 30 days of odd steps a bucket gives out what exact arithmetic does: permits that come
// within a microsecond may come in that.
func TestNoDriftInThirtyDays(t *testing.T) {
	for _, tt := range []struct{ capacity, permits, in int64 }{ // in so many µs
		{5, 1, 2e6}, {1, 1, 3e6}, {100, 7, 60e6}, {3, 1, 10e6}, {10, 29, 31e6},
	} {
		b := Bucket{tt.capacity, float64(tt.permits) / float64(tt.in) * 1e6, time.Second}
		r := redistest.Must(b.rule())(t)
		tokens, s := tt.capacity*tt.in, state{} // in units of which permits come in a µs
		random := rand.New(rand.NewPCG(30, 0))
		start := int64(1_700_000_000_000_000)
		for now := start; now < start+30*86400*1e6; {
			odd := 1 + random.Int64N(2*tt.in/tt.permits)
			now += odd
			tokens = min(tokens+odd*tt.permits, tt.capacity*tt.in)
			over := tokens - tt.in
			granted := r.Take(&s, now, 1).Allowed
			if granted != (over >= 0) && max(over, -over) > tt.permits {
				t.Fatalf("%+v, after %d µs: granted %v, exactly %d", tt, now-start, granted, tokens)
			}
			if granted {
				tokens -= tt.in
			}
		}
	}
}

// If the clock is set back, tokens that came with that time leave with it. So they do not
// come twice, as with golang.org/x/time/rate.
func TestABackwardClockRefillsOnce(t *testing.T) {
	b, s := newBucket(3, 10), state{}
	theirs, granted := rate.NewLimiter(10, 3), [2]int{}
	for i := range 40 {
		now := time.Unix(1_700_000_000, int64(i%2)*1e8)
		if b.take(&s, now.UnixMicro(), 1).Allowed {
			granted[0]++
		}
		if theirs.AllowN(now, 1) {
			granted[1]++
		}
	}
	if granted[0] != 4 || granted[1] <= 4 {
		t.Errorf("in 100 ms %d were granted of 3 and 10 a second; by theirs %d", granted[0], granted[1])
	}
}

// A clock that is set far back leaves an empty bucket, which fills as ever.
func TestAClockSetFarBack(t *testing.T) {
	b, s := newBucket(3, 10), state{}
	now := int64(1_700_000_000_000_000)
	b.take(&s, now, 1)
	now -= 3600e6
	for _, want := range []int64{100_000, 60_000, 20_000} {
		if a := b.take(&s, now, 1); a.Allowed || a.Retry != want || a.Reset != want+200_000 {
			t.Errorf("%+v, want a retry after %d", a, want)
		}
		now += 40_000
	}
	if now += 180_000; !b.take(&s, now, 3).Allowed {
		t.Error("a bucket is not full after its time")
	}
}

// What others may write under the key, in the right form, is no more than a limit, and is
// over after twice the time of one. It expires then.
func TestBucketOfOthers(t *testing.T) {
	for _, text := range []string{
		"0 1", "-1 1", "-1e300 1", "1e300 1", "1e999 1", "-1e999 1", "0 9007199254740993",
		"5 " + strings.Repeat("9", 300), "5 " + strings.Repeat("9", 400), "1e300 9007199254740993",
		"- 1", "e 1", "0 0", "-0 0", "5 2000000000000000", "1e14 946684800000000", "-1e14 946684800000000",
		"0 946684800000000", "10 946684800000000", "1e9 946684800000000", // nothing is left now
	} {
		synctest.Test(t, func(t *testing.T) {
			rdb := redistest.MiniClient(t, redistest.Mini(t))
			rdb.Set(t.Context(), "{name}:tokenbucket", text, 0)
			l := redistest.Must(Bucket{10, 10, time.Hour}.OnRedis(rdb, "name"))(t)
			granted := 0
			for range 30 {
				r, err := l.Allow(t.Context(), 1)
				if err != nil || max(r.RetryAfter, r.ResetAfter) > 2*time.Hour || r.Remaining > 10 {
					t.Fatalf("%q: %+v %v", text, r, err)
				}
				if r.Allowed {
					granted++
				}
			}
			ttl := rdb.PTTL(t.Context(), "{name}:tokenbucket").Val()
			if granted > 10 || ttl <= 0 || ttl > 2*time.Hour+time.Millisecond {
				t.Errorf("%q: %d are granted, the time to live is %v", text, granted, ttl)
			}
			time.Sleep(2 * time.Hour)
			if r, err := l.Allow(t.Context(), 10); err != nil || !r.Allowed {
				t.Errorf("%q: after its time %+v %v", text, r, err)
			}
		})
	}
}
