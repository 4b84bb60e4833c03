package limittest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// attempts bounds the tries of a check whose calls take too long.
const attempts = 20

// A failure is the panic that ends a check early.
type failure struct{ error }

// try runs a check until its result is certain.
func (s suite) try(t *testing.T, c check) error {
	t.Helper()
	for attempt := 1; ; attempt++ {
		r := &run{suite: s, t: t, budget: s.spec.Interval / 4}
		err := r.attempt(c)
		// In real time the machine may stop, or its clock step, where no call notices.
		trusted := s.spec.Synctest || attempt > 1
		if err == nil || trusted && !r.late() {
			return err
		}
		if attempt == attempts {
			return fmt.Errorf("%w\nPerhaps %w for an interval of %v: %v in all, tried %d times",
				err, ErrTooSlow, s.spec.Interval, r.unslept(), attempts)
		}
	}
}

// A run is one attempt at a check. Only ask, tick and sleep are safe for concurrent use: a check must fail in
// its own goroutine.
type run struct {
	suite
	t      *testing.T
	budget time.Duration // how long calls may take in all, where time matters
	sure   bool          // a failure counts, however long calls take

	mu      sync.Mutex // guards the fields below
	first   time.Time  // the first call
	last    time.Time  // the end of the last call or sleep
	slept   time.Duration
	crossed bool // a fixed window may have ended during a call
}

// attempt runs the check once.
func (r *run) attempt(c check) (err error) {
	defer func() {
		if p := recover(); p != nil {
			f, ok := p.(failure)
			if !ok {
				panic(p)
			}
			err = f.error
		}
	}()
	c.check(r)
	return nil
}

// fail ends the check.
func (r *run) fail(format string, args ...any) {
	panic(failure{fmt.Errorf(format, args...)})
}

// limiter returns a fresh limiter.
func (r *run) limiter(rate int64) limit.Limiter {
	r.t.Helper()
	r.expects(rate)
	return r.spec.New(r.t, rate, r.spec.Interval)
}

// pair returns two handles of a fresh limiter.
func (r *run) pair(rate int64) (one, other limit.Limiter) {
	r.t.Helper()
	r.expects(rate)
	return r.spec.Pair(r.t, rate, r.spec.Interval)
}

// keys returns a fresh limiter with keys.
func (r *run) keys(rate int64) limiterOf {
	r.t.Helper()
	r.expects(rate)
	return r.keyed(r.t, rate, r.spec.Interval)
}

// expects sets the budget for a limiter: where permits come back one by one, the time of one.
func (r *run) expects(rate int64) {
	if r.spec.Algorithm.oneByOne() {
		r.budget = min(r.budget, r.spec.Interval/time.Duration(rate))
	}
}

// late reports whether calls took too long for a failure to count.
func (r *run) late() bool {
	r.mu.Lock()
	crossed := r.crossed && r.spec.Algorithm == FixedWindow
	r.mu.Unlock()
	return !r.sure && (crossed || r.unslept() >= r.budget)
}

// unslept returns the time since the first call, without sleeps.
func (r *run) unslept() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last.Sub(r.first) - r.slept
}

// tick records the time, before and after each call.
func (r *run) tick() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.spec.Now()
	if r.first.IsZero() {
		r.first, r.last = now, now
	}
	window := func(t time.Time) int64 { return t.UnixNano() / int64(r.spec.Interval) }
	r.crossed = r.crossed || window(r.last) != window(now)
	r.last = now
	return now
}

// sleep lets time pass. Oversleeping counts as time of calls.
func (r *run) sleep(d time.Duration) {
	before := r.tick()
	r.spec.Sleep(max(0, d))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = r.spec.Now()
	r.slept += min(max(0, d), r.last.Sub(before))
}

// ask calls Allow, and turns a panic into an error.
func (r *run) ask(ctx context.Context, l limit.Limiter, n int64) (result limit.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = limit.Result{}, fmt.Errorf("a panic: %v\n%s", p, debug.Stack())
		}
	}()
	r.tick()
	defer r.tick()
	return l.Allow(ctx, n)
}

// allow expects no error.
func (r *run) allow(l limit.Limiter, n int64) limit.Result {
	result, err := r.ask(r.t.Context(), l, n)
	if err != nil {
		r.fail("Allow(%d) returns an error: %w", n, err)
	}
	return result
}

// granted expects permits to be granted.
func (r *run) granted(l limit.Limiter, n int64) limit.Result {
	result := r.allow(l, n)
	if !result.Allowed {
		r.fail("Allow(%d) refuses: %+v; want it to grant", n, result)
	}
	return result
}

// refused expects permits to be refused.
func (r *run) refused(l limit.Limiter, n int64) limit.Result {
	result := r.allow(l, n)
	if result.Allowed {
		r.fail("Allow(%d) grants: %+v; want it to refuse", n, result)
	}
	return result
}

// has expects that n permits are left, and takes them.
func (r *run) has(l limit.Limiter, n int64) {
	if n > 0 {
		r.granted(l, n)
	}
	r.refused(l, 1)
}

// grants expects several grants in turn, or a single one of their sum if the limiter is paced, and returns
// the results.
func (r *run) grants(l limit.Limiter, ns ...int64) (results []limit.Result) {
	if r.spec.Algorithm == Paced {
		sum := int64(0)
		for _, n := range ns {
			sum += n
		}
		ns = []int64{sum}
	}
	for _, n := range ns {
		results = append(results, r.granted(l, n))
	}
	return results
}

// left returns how many of n remaining permits are left: none if the limiter is paced.
func (r *run) left(n int64) int64 {
	if r.spec.Algorithm == Paced {
		return 0
	}
	return n
}

// returned returns how many permits may have come back during the calls.
func (r *run) returned(rate int64) int64 {
	if !r.spec.Algorithm.oneByOne() {
		return 0
	}
	return int64(float64(rate) * float64(r.unslept()) / float64(r.spec.Interval))
}

// drain takes permits one by one until a refusal, and returns how many.
func (r *run) drain(l limit.Limiter, rate int64) (taken int64) {
	for ; r.allow(l, 1).Allowed; taken++ {
		if taken > 100*rate {
			r.fail("%d permits granted one by one, and still no refusal; the rate is %d", taken, rate)
		}
	}
	return taken
}

// fails expects an error that is one of reasons.
func (r *run) fails(ctx context.Context, l limit.Limiter, n int64, reasons ...error) {
	_, err := r.ask(ctx, l, n)
	for _, reason := range reasons {
		if errors.Is(err, reason) {
			return
		}
	}
	r.fail("Allow(%d) returns the error %v; want %q", n, err, reasons)
}

// isZero reports whether a result is the zero Result.
func isZero(result limit.Result) bool { return reflect.ValueOf(result).IsZero() }

// near reports whether two times are equal within Tolerance.
func (r *run) near(a, b time.Duration) bool { return (a - b).Abs() <= r.spec.Tolerance }
