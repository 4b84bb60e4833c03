package records_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/grants"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// Two versions that set different intervals, or rates, take turns on a limiter. Each is granted what
// the permits taken within its own interval leave of its own rate, by any Client: not more,
// because of what the other one has removed, and not less.
func TestEachVersionKeepsItsOwnBound(t *testing.T) {
	type version struct {
		rate     int64
		interval time.Duration
	}
	for _, versions := range [][2]version{
		{{10, time.Second}, {100, 10 * time.Second}},
		{{1000, time.Second}, {100, 10 * time.Second}},
		{{10, time.Second}, {7, time.Second}},
		{{20, time.Minute}, {3, time.Second}},
	} {
		OnBoth(t, func(b *Bench) {
			name := redistest.Name(b)
			var keyeds [2]*rratelimiter.Keyed
			for i, v := range versions {
				keyeds[i] = b.Client.Keyed(name, v.rate, v.interval)
			}
			random := rand.New(rand.NewPCG(1, 2))
			var granted grants.Grants
			for range redistest.Rounds(t, 700) {
				i := random.IntN(2)
				if random.IntN(400) == 0 { // one version is alone for a time
					i = 1
					b.Now += 4_000
				}
				v, permits := versions[i], 1+random.Int64N(3)
				out := granted.Within(b.Now, v.interval.Milliseconds()).Sum()
				r, err := keyeds[i].For("k").Allow(b.Context(), permits)
				if fits := out+permits <= v.rate; err != nil || r.Allowed != fits {
					b.Fatalf("%d permits of %+v at %d, with %d taken: %+v, %v", permits, v, b.Now, out, r,
						err)
				}
				if r.Allowed {
					granted = append(granted, grants.Grant{At: b.Now, Permits: permits})
				}
				b.Now += random.Int64N(60)
			}
		})
	}
}

// With more records than a call may read, an acquire that lacks the value, a look, and a new rate read some
// of them and estimate. An acquire that changes only the rate reads none.
func TestAValueIsEstimatedFromSomeRecords(t *testing.T) {
	s := redistest.Start(t)
	b := NewBench(t, s.Client(t), s.Admin())
	const records, rate = 200_000, 1_000_000
	ranges := func() int64 { return redistest.Calls(t, b.Look, "zrange") }
	name := "{" + redistest.Name(b) + "}"
	keyed := b.Client.Keyed(name, rate, time.Hour)
	other := b.Client.Keyed(name, rate+1, time.Hour)
	l := b.Wrap(keyed.For("k"))
	value, permits := l.Name()+":value", l.Name()+":permits"
	b.Want(keyed.For("k").Acquire(t.Context(), 1))
	b.FillKey(permits, b.Now-records, 1, records/2, 1)
	b.FillKey(permits, b.Now-records/2, 1, records/2, 3)
	const out = 2*records + 1
	b.SetKey(value, rate-out)
	for _, tc := range []struct {
		what   string
		do     func() error
		exact  bool
		ranges int64
		left   int64 // without what was taken since
	}{
		{"another rate", func() error {
			return other.For("k").Acquire(t.Context(), 1)
		}, true, 3, rate + 1 - out - 1},
		{"the rate again", func() error {
			return keyed.For("k").Acquire(t.Context(), 1)
		}, true, 3, rate - out - 2},
		{"SetRate", func() error {
			return l.SetRate(t.Context(), Overall, rate+5, time.Hour, rratelimiter.WithKeepState())
		}, true, 3, rate + 5 - out - 2},
		{"SetRate without a value", func() error {
			b.Want(b.Look.Del(t.Context(), value).Err())
			return l.SetRate(t.Context(), Overall, rate, time.Hour, rratelimiter.WithKeepState())
		}, false, 50, rate - out - 2},
		{"an acquire without a value", func() error {
			b.Want(b.Look.Del(t.Context(), value).Err())
			return l.Acquire(t.Context(), 1)
		}, false, 50, rate - out - 3},
	} {
		before := ranges()
		b.Want(tc.do())
		if n := ranges() - before; n > tc.ranges {
			t.Errorf("%s: %d reads of records, want at most %d", tc.what, n, tc.ranges)
		}
		got, err := b.Look.Get(t.Context(), value).Int64()
		b.Want(err)
		if off := max(got-tc.left, tc.left-got); tc.exact && off > 0 || off > out/50 {
			t.Errorf("%s: %d permits are left, want %d", tc.what, got, tc.left)
		}
	}
	b.Want(b.Look.Del(t.Context(), value).Err())
	before := ranges()
	r, err := l.Peek(t.Context())
	if off := max(r.Remaining-(rate-out-3), rate-out-3-r.Remaining); err != nil || off > out/50 {
		t.Errorf("%+v, %v; want %d permits left", r, err, rate-out-3)
	}
	if n := ranges() - before; n > 50 {
		t.Errorf("a look: %d reads of records", n)
	}
}
