package records_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// within returns the permits in the records of the last interval, and how many older and younger records
// there are.
func within(l *Limiter, permits string, interval time.Duration) (sum int64, older, younger int) {
	l.Helper()
	all, err := l.Look.ZRangeWithScores(l.Context(), permits, 0, -1).Result()
	l.Want(err)
	for _, z := range all {
		n, err := wire.Permits(z.Member.(string))
		l.Want(err)
		if int64(z.Score) > l.Now-interval.Milliseconds() {
			sum += n
			younger++
		} else {
			older++
		}
	}
	return sum, older, younger
}

// releaseOrPeek gives back n permits where which is 0, and reads the limiter where it is 1.
func releaseOrPeek(t *testing.T, l *rratelimiter.RateLimiter, n int64, which int) (err error) {
	t.Helper()
	switch which {
	case 0:
		err = l.Release(t.Context(), n)
	case 1:
		_, err = l.Peek(t.Context())
	}
	return err
}

// With more records than a call may read, versions with different intervals also keep their bounds: their
// large grants between thousands of small ones count, what Java takes, and what was given back, also when
// only one version is left. A version is refused only what does not fit, unless thousands of its own
// records and thousands of older ones hold several permits each.
func TestVersionsKeepTheirBoundsWithManyRecords(t *testing.T) {
	type version struct {
		rate     int64
		interval time.Duration
	}
	for _, tc := range []struct {
		what        string
		versions    [2]version
		older, each int // records beyond the shorter interval, permits of each
		young       int // records within it, of one permit
		step        int64
	}{
		{"a little shorter", [2]version{{100_000, time.Minute}, {100_000, 50 * time.Second}},
			1000, 3, 4500, 40},
		{"other rates", [2]version{{100_000, time.Minute}, {60_000, 50 * time.Second}}, 3000, 2, 4500, 20},
		{"much shorter", [2]version{{100_000, time.Minute}, {5_000, 2 * time.Second}}, 5000, 3, 500, 40},
		{"both have many", [2]version{{100_000, time.Minute}, {60_000, 30 * time.Second}}, 5000, 1, 5000, 10},
		{"both have many, of several", [2]version{{100_000, time.Minute}, {60_000, 30 * time.Second}},
			5000, 3, 5000, 10},
	} {
		t.Run(tc.what, func(t *testing.T) {
			s := redistest.Start(t)
			b := NewBench(t, s.Client(t), s.Admin())
			name := redistest.Name(b)
			var limits [2]*rratelimiter.Keyed
			for i, v := range tc.versions {
				limits[i] = b.Client.Keyed(name, v.rate, v.interval)
			}
			l := b.Wrap(b.Client.RateLimiter(name + ":{k}"))
			value, permits := l.Name()+":value", l.Name()+":permits"
			b.Want(limits[0].Acquire(t.Context(), "k", 1))
			short := tc.versions[1].interval.Milliseconds()
			b.FillKey(permits, b.Now-short-int64(tc.older), 1, tc.older, byte(tc.each))
			b.FillKey(permits, b.Now-short+1000, max(1, tc.young/1000), tc.young, 1)
			b.SetKey(value, tc.versions[0].rate-1-int64(tc.older*tc.each+tc.young))
			several := tc.each > 1
			random, refused, granted := rand.New(rand.NewPCG(1, 2)), 0, 0
			round := func(i int) {
				v, n := tc.versions[i], 1+random.Int64N(20)
				if random.IntN(10) == 0 {
					n = 1 + random.Int64N(v.rate)
				}
				b.Want(releaseOrPeek(t, limits[i].RateLimiter("k"), n, random.IntN(20)))
				sum, older, younger := within(l, permits, v.interval)
				r, err := limits[i].Allow(t.Context(), "k", n)
				b.Want(err)
				fits, mayRefuse := sum+n <= v.rate, several && min(older, younger) > 4000
				if r.Allowed != fits && (r.Allowed || !mayRefuse) {
					t.Fatalf("%d permits of %+v, with %d out and %d older records: %+v", n, v, sum, older, r)
				}
				if r.Allowed {
					granted++
				} else {
					refused++
				}
			}
			java := func() {
				b.FillKey(permits, b.Now-1000, 6, 4_200, 1)
				b.Want(b.Look.DecrBy(t.Context(), value, 4_200).Err())
			}
			for range redistest.Rounds(t, 30) {
				round(random.IntN(2))
				b.Now += random.Int64N(tc.step)
			}
			java()
			for range redistest.Rounds(t, 10) {
				round(random.IntN(2))
			}
			for i := range 30 { // until the longer interval is forgotten
				round(1)
				if several = true; i == 20 {
					java()
				}
				b.Now += 2400
			}
			if granted == 0 || refused == 0 {
				t.Errorf("%d granted, %d refused: nothing is tested", granted, refused)
			}
		})
	}
}

// Grants that a sample of the records would miss count also against the first version with another interval:
// one that is shorter, longer, or set by SetRate for all, or where only the rate is another one.
func TestLargeGrantsCountAgainstAnotherInterval(t *testing.T) {
	s := redistest.Start(t)
	b := NewBench(t, s.Client(t), s.Admin())
	const rate, small, large = 1_000_000, 8_000, 100_000
	ctx := t.Context()
	for what, typ := range map[string]rratelimiter.RateType{"shared": Overall, "of one client": PerClient} {
		for _, interval := range []time.Duration{50 * time.Second, 61 * time.Second, time.Minute} {
			for _, by := range []string{"Keyed", "SetRate"} {
				name := redistest.Name(b)
				l := b.Wrap(b.Client.RateLimiter(name + ":{k}"))
				b.Want(l.SetRate(ctx, typ, rate, time.Minute))
				value, permits := l.Name()+":value", l.Name()+":permits"
				if typ == PerClient {
					value, permits = value+":"+b.Client.ID(), permits+":"+b.Client.ID()
				}
				l.Takes(large)
				b.FillKey(permits, b.Now-10_000, 1, small, 1)
				b.SetKey(value, rate-small-large)
				for range 7 {
					l.Takes(large)
				}
				keyed := b.Client.Keyed(name, rate+1, interval)
				if by == "SetRate" {
					b.Want(l.SetRate(ctx, typ, rate+1, interval, rratelimiter.WithKeepState()))
				} else if typ == PerClient {
					continue
				}
				took := int64(small + 8*large)
				for range 5 {
					acquire := l.TryAcquire
					if by == "Keyed" {
						acquire = keyed.RateLimiter("k").TryAcquire
					}
					ok, err := acquire(ctx, large, 0)
					if b.Want(err); ok {
						took += large
					}
				}
				if took != small+9*large {
					t.Errorf("%s, %s to %v: %d granted, want %d", what, by, interval, took, small+9*large)
				}
			}
		}
	}
}
