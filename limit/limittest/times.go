package limittest

import (
	"math/rand/v2"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

func retryAfterIsSet(r *run) {
	l := r.limiter(10)
	for _, result := range r.grants(l, 1, 9) {
		if wait := result.RetryAfter; wait != 0 {
			r.fail("RetryAfter of a grant is %v, want 0", wait)
		}
	}
	for _, n := range []int64{1, 5, 10} {
		if wait := r.refused(l, n).RetryAfter; wait <= 0 {
			r.fail("RetryAfter of a refusal of %d is %v, want it above 0", n, wait)
		}
	}
}

// spent returns a limiter without permits, which were taken at two times.
func (r *run) spent(rate int64) limit.Limiter {
	l := r.limiter(rate)
	r.granted(l, rate/2)
	r.sleep(r.spec.Interval / 4)
	r.drain(l, rate)
	return l
}

func retryAfterIsEnough(r *run) {
	for _, n := range []int64{1, 5, 7, 10} {
		l := r.spent(10)
		result := r.allow(l, n)
		if result.Allowed { // a window has just ended
			continue
		}
		r.sleep(result.RetryAfter)
		if after := r.allow(l, n); !after.Allowed {
			r.fail("%d are refused after the RetryAfter of %v: %+v", n, result.RetryAfter, after)
		}
	}
}

func retryAfterIsNotTooLong(r *run) {
	r.budget = min(r.budget, r.spec.Tolerance)
	for _, n := range []int64{1, 5, 7, 10} {
		l := r.spent(10)
		result := r.allow(l, n)
		early := result.RetryAfter - r.spec.Tolerance
		if early <= 0 {
			continue
		}
		r.sleep(early)
		if before := r.allow(l, n); before.Allowed {
			r.fail("%d are granted after %v; RetryAfter was %v", n, early, result.RetryAfter)
		} else if rest := result.RetryAfter - early; !r.near(before.RetryAfter, rest) {
			r.fail("RetryAfter of %d is %v after %v; before it was %v", n, before.RetryAfter, early,
				result.RetryAfter)
		}
	}
}

// Behind a fixed window the next window may also have to pass.
func resetAfterIsSet(r *run) {
	l := r.limiter(10)
	longest := r.spec.Interval + r.spec.Tolerance
	if r.spec.Algorithm == FixedWindow {
		longest += r.spec.Interval
	}
	results := append(r.grants(l, 1, 9), r.refused(l, 1), r.refused(l, 10))
	for _, result := range results {
		reset := result.ResetAfter
		if reset <= 0 || reset > longest || reset < result.RetryAfter-r.spec.Tolerance {
			r.fail("ResetAfter is %v; want it above 0, at most %v, and not below RetryAfter: %+v",
				reset, longest, result)
		}
	}
}

func resetAfterIsEnough(r *run) {
	for _, n := range []int64{1, 7, 10} {
		l := r.limiter(10)
		reset := r.granted(l, n).ResetAfter
		r.sleep(reset)
		if after := r.allow(l, 10); !after.Allowed {
			r.fail("10 of 10 are refused after the ResetAfter of %v: %+v", reset, after)
		}
	}
	l := r.spent(10)
	reset := r.allow(l, 10).ResetAfter
	r.sleep(reset)
	if after := r.allow(l, 10); !after.Allowed {
		r.fail("10 of 10 are refused after the ResetAfter of %v, that of a refusal: %+v", reset, after)
	}
}

func idle(r *run) {
	l := r.limiter(10)
	r.sleep(2 * r.spec.Interval)
	r.has(l, 10)
	r.sleep(3 * r.spec.Interval)
	r.has(l, 10)
}

// agrees looks at results of all kinds. A limiter without Each has one name.
func agrees(r *run) {
	l := r.limiter(10)
	results := append(r.grants(l, 1, 5), r.refused(l, 5))
	if r.spec.Algorithm != Paced {
		results = append(results, r.granted(l, 4))
	}
	results = append(results, r.refused(l, 1), r.refused(l, 10))
	for _, result := range results {
		r.sound(result)
		if result.Each == nil && result.Name != results[0].Name {
			r.fail("Name was %q, and is %q", results[0].Name, result.Name)
		}
		if result.Degraded {
			r.fail("Degraded, and nothing has failed: %+v", result)
		}
	}
}

// sound expects possible numbers.
func (r *run) sound(result limit.Result) {
	if result.Remaining < 0 || result.Remaining > result.Limit {
		r.fail("Remaining is not between 0 and Limit: %+v", result)
	}
	if result.RetryAfter < 0 || result.ResetAfter < 0 || result.Interval < 0 {
		r.fail("a time is below 0: %+v", result)
	}
	if result.Each == nil {
		return
	}
	all, longest := true, time.Duration(0)
	for _, one := range result.Each {
		r.sound(one)
		all = all && one.Allowed
		longest = max(longest, one.RetryAfter)
	}
	if len(result.Each) == 0 || all != result.Allowed {
		r.fail("Allowed does not say whether all of Each are: %+v", result)
	}
	if !r.near(longest, result.RetryAfter) {
		r.fail("RetryAfter is %v, and the longest of Each is %v: %+v", result.RetryAfter, longest, result)
	}
}

// A trial is a call of a random run, decided at some time between start and end.
type trial struct {
	start, end time.Time
	n          int64
	allowed    bool
}

// random asks for random numbers at random times, for some intervals: 40 in a bubble, where they take no
// time.
func (r *run) random(rate int64) (trials []trial) {
	r.sure = true // each trial knows how long its call took
	intervals := time.Duration(3)
	if r.spec.Synctest {
		intervals = 40
	}
	l := r.limiter(rate)
	random := rand.New(rand.NewPCG(1, 2))
	for end := r.tick().Add(intervals * r.spec.Interval); r.tick().Before(end); {
		n := 1 + random.Int64N(rate/2)
		start := r.tick()
		allowed := r.allow(l, n).Allowed
		trials = append(trials, trial{start, r.tick(), n, allowed})
		if random.IntN(3) > 0 {
			r.sleep(time.Duration(random.Int64N(int64(r.spec.Interval / 5))))
		}
	}
	return trials
}

func worstInterval(r *run) {
	const rate = 10
	trials := r.random(rate)
	for i, first := range trials {
		end, sum := first.start.Add(r.spec.Interval-r.spec.Tolerance), int64(0)
		for _, a := range trials[i:] {
			if a.allowed && a.end.Before(end) {
				sum += a.n
			}
		}
		if most := rate * r.spec.Algorithm.worst(); sum > most {
			r.fail("%d permits granted within an interval, want at most %d", sum, most)
		}
	}
}

// A refusal has a reason if the permits granted in the interval before leave too few: in two intervals,
// unless the algorithm is SlidingLog. A paced limiter refuses until n/rate of an interval has passed since it
// granted n.
func refusalHasReason(r *run) {
	const rate = 10
	trials := r.random(rate)
	if r.spec.Algorithm == Paced {
		r.pacedReason(trials, rate)
		return
	}
	for i, refusal := range trials {
		since, sum := refusal.start.Add(-r.spec.Interval-r.spec.Tolerance), int64(0)
		if r.spec.Algorithm != SlidingLog {
			since = since.Add(-r.spec.Interval)
		}
		for _, a := range trials[:i] {
			if a.allowed && a.end.After(since) {
				sum += a.n
			}
		}
		if !refusal.allowed && sum+refusal.n <= rate {
			r.fail("%d are refused, and %d of %d were taken in the interval before", refusal.n, sum, rate)
		}
	}
}

func (r *run) pacedReason(trials []trial, rate int64) {
	var free time.Time
	for _, a := range trials {
		switch {
		case a.allowed:
			free = a.end.Add(r.spec.Interval*time.Duration(a.n)/time.Duration(rate) + r.spec.Tolerance)
		case a.start.After(free):
			r.fail("%d are refused, and nothing is owed since %v", a.n, a.start.Sub(free))
		}
	}
}
