// Package limittest checks that a limiter keeps the rules of package limit: its numbers are right, it grants
// no more than its rate, and it takes nothing when it refuses or fails. It checks any limiter, on any store:
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
// A limiter in memory is best checked with Synctest: in a testing/synctest bubble, calls take no time, and
// the checks are exact. On a store with its own clock the checks last some 20 intervals, and calls take
// time. A check that fails because its calls took too long is retried.
package limittest

import (
	"cmp"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// A Spec says how to make the limiter to check, and what it promises.
type Spec = SpecOf[limit.Limiter]

// A KeyedSpec is a Spec of a Keyed whose limiters are of type L.
type KeyedSpec[L limit.Limiter] = SpecOf[limit.Keyed[L]]

// A SpecOf is a Spec or a KeyedSpec. Only New must be set.
type SpecOf[L any] struct {
	// New returns an unused limiter of rate permits in an interval, a different one for
	// each check. rate is 1 to 1,000, and interval is Interval.
	New func(t *testing.T, rate int64, interval time.Duration) L

	// Pair returns two handles of one unused limiter, as two processes would have. The
	// check that they share the limit needs it.
	Pair func(t *testing.T, rate int64, interval time.Duration) (L, L)

	// Algorithm says how permits come back. The default is SlidingLog, the strictest.
	Algorithm Algorithm

	// Interval is the interval of all limiters, much longer than a call takes. The
	// default is 1 s.
	Interval time.Duration

	// Tolerance is the error allowed in times, including that of the store's clock: a
	// permit may come back earlier or later by it. A RetryAfter or a ResetAfter must
	// never be too short. The default is a 20th of Interval.
	Tolerance time.Duration

	// Synctest runs each check in its own testing/synctest bubble, including New and
	// Pair. Goroutines of the limiter must end with the test.
	Synctest bool

	// Parallel runs the checks in parallel, by T.Parallel: on a store with its own clock
	// they mostly wait. The flag -parallel of go test bounds how many run at a time.
	Parallel bool

	// Now and Sleep are the clock of the limiter, if it is a fake one. The default is
	// that of package time, also in a bubble. Many goroutines call them.
	Now   func() time.Time
	Sleep func(d time.Duration)
}

// An Algorithm says how permits come back, and so how many a limiter grants at most.
type Algorithm int

const (
	// SlidingLog gives each permit back an interval after it was taken. No interval has
	// more than the rate.
	SlidingLog Algorithm = iota

	// TokenBucket gives permits back one by one, the rate in an interval, as with GCRA. An
	// interval may have the permits of a full bucket and the returning ones: up to twice
	// the rate.
	TokenBucket

	// FixedWindow gives permits back when a window ends, all at once or gradually in the
	// next one. Windows begin with the first call, or at multiples of the interval since
	// 1970. Around the end of a window, an interval has up to twice the rate.
	FixedWindow

	// Paced lets permits leave at a constant pace, as from a queue. A request for n is
	// granted if nothing is owed, and then n/rate of the interval must pass. So one request
	// may take the whole rate, and the next one waits. Remaining is the rate if nothing is
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

// TestLimiter checks a Limiter, each rule in a subtest of its name.
func TestLimiter(t *testing.T, spec Spec) {
	t.Helper()
	suiteOf(spec).test(t, limiterChecks)
}

// TestKeyed checks a Keyed: the limit of one key as TestLimiter does, and the rules for keys.
func TestKeyed[L limit.Limiter](t *testing.T, spec KeyedSpec[L]) {
	t.Helper()
	suiteOfKeyed(spec).test(t, slices.Concat(limiterChecks, keyedChecks))
}

// ErrTooSlow is wrapped in the error of a check that may have failed because its calls took too long.
var ErrTooSlow = errors.New("calls take too long")

// A Finding is the result of the check of one rule.
type Finding struct {
	Rule string // the name of the subtest of TestLimiter or TestKeyed
	Err  error  // how the rule is broken; nil if it is kept
}

// Check checks a Limiter as TestLimiter does, but returns findings instead of failing t: for limiters that
// need not keep all rules, such as those of other libraries. Without a Pair it skips the rule for pairs.
func Check(t *testing.T, spec Spec) []Finding {
	t.Helper()
	return suiteOf(spec).findings(t, limiterChecks)
}

// CheckKeyed is Check for a Keyed.
func CheckKeyed[L limit.Limiter](t *testing.T, spec KeyedSpec[L]) []Finding {
	t.Helper()
	return suiteOfKeyed(spec).findings(t, slices.Concat(limiterChecks, keyedChecks))
}

func (s suite) findings(t *testing.T, checks []check) (all []Finding) {
	t.Helper()
	s.each(t, checks, func(_ *testing.T, rule string, err error) {
		all = append(all, Finding{rule, err})
	})
	return all
}

// suiteOf returns the suite of a Limiter.
func suiteOf(spec Spec) suite { return suite{spec: spec.complete()} }

// suiteOfKeyed returns the suite of a Keyed.
func suiteOfKeyed[L limit.Limiter](spec KeyedSpec[L]) suite {
	one := Spec{
		New: func(t *testing.T, rate int64, interval time.Duration) limit.Limiter {
			t.Helper()
			return spec.New(t, rate, interval).For("key")
		},
		Algorithm: spec.Algorithm, Interval: spec.Interval, Tolerance: spec.Tolerance,
		Synctest: spec.Synctest, Parallel: spec.Parallel, Now: spec.Now, Sleep: spec.Sleep,
	}
	if spec.Pair != nil {
		one.Pair = func(t *testing.T, rate int64, interval time.Duration) (limit.Limiter, limit.Limiter) {
			t.Helper()
			a, b := spec.Pair(t, rate, interval)
			return a.For("key"), b.For("key")
		}
	}
	return suite{one.complete(), func(t *testing.T, rate int64, interval time.Duration) limiterOf {
		t.Helper()
		keyed := spec.New(t, rate, interval)
		return func(key string) limit.Limiter { return keyed.For(key) }
	}}
}

// complete returns s with its defaults.
func (s SpecOf[L]) complete() SpecOf[L] {
	s.Interval = cmp.Or(s.Interval, time.Second)
	s.Tolerance = cmp.Or(s.Tolerance, s.Interval/20)
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Sleep == nil {
		s.Sleep = time.Sleep
	}
	return s
}

// A suite is the limiter under test.
type suite struct {
	spec  Spec
	keyed func(t *testing.T, rate int64, interval time.Duration) limiterOf // nil for a Limiter
}

// A limiterOf returns the limiter of a key.
type limiterOf func(key string) limit.Limiter

// A check is one rule. Its function panics with a failure if the rule is broken.
type check struct {
	name  string
	check func(r *run)
	pair  bool // needs a Pair
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

// each runs checks as subtests, and reports the result of each.
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

// enter calls f, in a bubble if Synctest is set.
func (s suite) enter(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if s.spec.Synctest {
		synctest.Test(t, f)
	} else {
		f(t)
	}
}
