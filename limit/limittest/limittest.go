// Package limittest checks that a limiter keeps the rules of package limit: it has
// the numbers that it says, gives out no more than its rate, and takes nothing where
// it refuses or fails. Any limiter may be checked, on any store:
//
//	func TestBucket(t *testing.T) {
//		limittest.TestLimiter(t, limittest.Spec{
//			New: func(t *testing.T, rate int64, interval time.Duration) limit.Limiter {
//				return bucket.New(rate, interval)
//			},
//			Algorithm: limittest.TokenBucket,
//			Synctest:  true,
//		})
//	}
//
// A limiter in memory is best checked with Synctest: time is that of a
// testing/synctest bubble then, so that nothing takes any, and nothing is missed. On a
// store with a clock of its own the checks last some 20 intervals. There each call
// takes time. A check that fails because its calls took too long is tried again.
package limittest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// A Spec says how to make the limiter to check, and what it promises.
type Spec = SpecOf[limit.Limiter]

// A KeyedSpec is a Spec of a limiter that has keys.
type KeyedSpec = SpecOf[limit.Keyed]

// A SpecOf is a Spec or a KeyedSpec. Only New must be set.
type SpecOf[L any] struct {
	// New returns a limiter that nobody has used, of rate permits in an interval. Each
	// check has its own. rate is 1 to 1,000, and interval is Interval.
	New func(t *testing.T, rate int64, interval time.Duration) L

	// Pair returns two handles of one limiter that nobody has used, as two processes
	// have them. Unless it is set, it is not checked that they share the limit.
	Pair func(t *testing.T, rate int64, interval time.Duration) (L, L)

	// Algorithm says how permits come back. The default is SlidingLog, the strictest.
	Algorithm Algorithm

	// Interval is that of all limiters, much longer than a call takes. The default is
	// 1 s.
	Interval time.Duration

	// Tolerance is how exact times are, with what the store's clock adds: a permit
	// may come back so much earlier or later. But a RetryAfter or a ResetAfter that
	// is too short is never tolerated. The default is a 20th of Interval.
	Tolerance time.Duration

	// Synctest has each check run in a testing/synctest bubble of its own, in which
	// New and Pair are called, too. What they start must end with the test.
	Synctest bool

	// Parallel has the checks run beside one another, by T.Parallel: on a store with a
	// clock of its own they mostly wait. The flag -parallel of go test says how many run
	// at a time.
	Parallel bool

	// Now and Sleep are the clock that the limiter goes by, if it is a fake one. The
	// default is that of package time, which is also right in a bubble. They are
	// called by many goroutines.
	Now   func() time.Time
	Sleep func(d time.Duration)
}

// An Algorithm says how permits come back, and so what a limiter gives out at most.
type Algorithm int

const (
	// SlidingLog has each permit come back an interval after it was taken. No interval
	// has more than the rate.
	SlidingLog Algorithm = iota

	// TokenBucket has permits come back one by one, the rate in an interval, as with
	// GCRA. Those of a full bucket and those that come back meanwhile may fall in one
	// interval: it has up to twice the rate.
	TokenBucket

	// FixedWindow has permits come back when a window ends, at once, or little by little
	// in the next one. Windows begin with the first call, or at multiples of the
	// interval since 1970. An interval has up to twice the rate, around the end of a
	// window.
	FixedWindow

	// Paced has permits leave at a constant pace, as a queue. A request of n is granted
	// if nothing is owed, and then n/rate of the interval must pass. So one request may
	// have the rate at once, and the next one waits. Remaining is the rate if nothing is
	// owed, otherwise 0, as after each grant. An interval has up to twice the rate.
	Paced
)

// worst returns the permits of the worst interval, as a multiple of the rate.
func (a Algorithm) worst() int64 {
	if a == SlidingLog {
		return 1
	}
	return 2
}

// oneByOne reports whether permits come back one by one.
func (a Algorithm) oneByOne() bool { return a == TokenBucket || a == Paced }

// TestLimiter checks a Limiter, each rule in a subtest that is named after it.
func TestLimiter(t *testing.T, spec Spec) {
	t.Helper()
	suiteOf(spec).test(t, limiterChecks)
}

// TestKeyed checks a Keyed: what TestLimiter does for the limit of one key, and the
// rules for keys.
func TestKeyed(t *testing.T, spec KeyedSpec) {
	t.Helper()
	suiteOfKeyed(spec).test(t, slices.Concat(limiterChecks, keyedChecks))
}

// suiteOf returns the suite of a Limiter.
func suiteOf(spec Spec) suite { return suite{spec: spec.complete()} }

// suiteOfKeyed returns the suite of a Keyed.
func suiteOfKeyed(spec KeyedSpec) suite {
	return suite{spec: ofOneKey(spec).complete(), keyed: spec.New}
}

// ofOneKey returns the spec of the limiter that one key has.
func ofOneKey(k KeyedSpec) Spec {
	s := Spec{
		New: func(t *testing.T, rate int64, interval time.Duration) limit.Limiter {
			t.Helper()
			return limit.Of(k.New(t, rate, interval), "key")
		},
		Algorithm: k.Algorithm, Interval: k.Interval, Tolerance: k.Tolerance, Synctest: k.Synctest,
		Parallel: k.Parallel, Now: k.Now, Sleep: k.Sleep,
	}
	if k.Pair != nil {
		s.Pair = func(t *testing.T, rate int64, interval time.Duration) (limit.Limiter, limit.Limiter) {
			t.Helper()
			one, other := k.Pair(t, rate, interval)
			return limit.Of(one, "key"), limit.Of(other, "key")
		}
	}
	return s
}

// complete returns s with its defaults.
func (s SpecOf[L]) complete() SpecOf[L] {
	if s.Interval == 0 {
		s.Interval = time.Second
	}
	if s.Tolerance == 0 {
		s.Tolerance = s.Interval / 20
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Sleep == nil {
		s.Sleep = time.Sleep
	}
	return s
}

// A suite is what checks run on.
type suite struct {
	spec  Spec
	keyed func(t *testing.T, rate int64, interval time.Duration) limit.Keyed // nil for a Limiter
}

// A check is one rule. Its function panics with a failure if the rule is broken.
type check struct {
	name  string
	check func(r *run)
	pair  bool // it takes a Pair
}

// test runs checks as subtests.
func (s suite) test(t *testing.T, checks []check) {
	t.Helper()
	s.each(t, checks, func(t *testing.T, _ string, err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	})
}

// each runs checks as subtests, and passes on what each found.
func (s suite) each(t *testing.T, checks []check, found func(t *testing.T, rule string, err error)) {
	t.Helper()
	for _, c := range checks {
		if c.pair && s.spec.Pair == nil {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if s.spec.Parallel {
				t.Parallel()
			}
			s.enter(t, func(t *testing.T) { found(t, c.name, s.try(t, c)) })
		})
	}
}

// enter calls f, in a bubble if the spec wants one.
func (s suite) enter(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if s.spec.Synctest {
		synctest.Test(t, f)
	} else {
		f(t)
	}
}
