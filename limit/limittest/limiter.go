package limittest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// limiterChecks are the rules of a Limiter.
var limiterChecks = []check{
	{name: "n below 1 is an ErrInvalidArgument and takes nothing", check: belowOne},
	{name: "n above the rate is an ErrPermitsExceedRate and takes nothing", check: aboveRate},
	{name: "a context that has ended takes nothing", check: endedContext},
	{name: "an error has no numbers", check: errorsHaveNoNumbers},
	{name: "a context that ends during a call keeps nothing", check: endingContext},
	{name: "the rate is granted at once, and no more", check: rateAtOnce},
	{name: "several permits are granted all or none", check: allOrNone},
	{name: "a refusal takes nothing", check: refusalTakesNothing},
	{name: "Limit and Interval are those of the limiter", check: limitAndInterval},
	{name: "Remaining is what is left", check: remaining},
	{name: "RetryAfter is 0 if allowed and above 0 if refused", check: retryAfterIsSet},
	{name: "after RetryAfter the permits are there", check: retryAfterIsEnough},
	{name: "before RetryAfter the permits are not there", check: retryAfterIsNotTooLong},
	{name: "ResetAfter is between RetryAfter and the interval", check: resetAfterIsSet},
	{name: "after ResetAfter all permits are there", check: resetAfterIsEnough},
	{name: "a limiter that was idle is full and not fuller", check: idle},
	{name: "a Result agrees with itself", check: agrees},
	{name: "many callers at once get the rate and no more", check: manyCallers},
	{name: "two handles share one limit", check: twoHandles, pair: true},
	{name: "no interval has more than the algorithm promises", check: worstInterval},
	{name: "a refusal has a reason", check: refusalHasReason},
}

func belowOne(r *run) {
	l := r.limiter(10)
	for _, n := range []int64{0, -1, -10, math.MinInt64} {
		r.fails(r.t.Context(), l, n, limit.ErrInvalidArgument)
	}
	r.has(l, 10)
}

// A number beyond what the limiter can count may also be a limit.ErrInvalidArgument.
func aboveRate(r *run) {
	l := r.limiter(10)
	for _, n := range []int64{11, 1000} {
		r.fails(r.t.Context(), l, n, limit.ErrPermitsExceedRate)
	}
	for _, n := range []int64{math.MaxInt32 + 1, math.MaxInt64 - 1, math.MaxInt64} {
		r.fails(r.t.Context(), l, n, limit.ErrPermitsExceedRate, limit.ErrInvalidArgument)
	}
	r.granted(l, 4)
	r.fails(r.t.Context(), l, 11, limit.ErrPermitsExceedRate)
	r.has(l, r.left(6))
}

// ended returns ended contexts.
func (r *run) ended() []context.Context {
	cancelled, cancel := context.WithCancel(r.t.Context())
	cancel()
	late, cancel := context.WithDeadline(r.t.Context(), time.Now().Add(-time.Second))
	cancel()
	caused, cause := context.WithCancelCause(r.t.Context())
	cause(errors.New("a cause"))
	return []context.Context{cancelled, late, caused}
}

func endedContext(r *run) {
	l := r.limiter(10)
	for range 2 {
		for _, ctx := range r.ended() {
			r.fails(ctx, l, 3, ctx.Err())
		}
	}
	r.has(l, 10)
}

func errorsHaveNoNumbers(r *run) {
	l := r.limiter(10)
	r.granted(l, 1)
	noNumbers := func(ctx context.Context, n int64) {
		if result, err := r.ask(ctx, l, n); err != nil && !isZero(result) {
			r.fail("Allow(%d) returns %+v with the error %w; want the zero Result", n, result, err)
		}
	}
	noNumbers(r.t.Context(), 0)
	noNumbers(r.t.Context(), 11)
	for _, ctx := range r.ended() {
		noNumbers(ctx, 1)
	}
}

// Permits of a call that failed may be given back a little later.
func endingContext(r *run) {
	if r.spec.Algorithm == Paced {
		endingContextPaced(r)
		return
	}
	const rate = 1000
	l := r.limiter(rate)
	r.granted(l, 1)
	granted := 1 + callsThatEnd(r, l)
	var left int64
	for range 25 {
		result := r.allow(l, rate)
		if left = result.Remaining; result.Allowed {
			left = rate
		}
		if left == rate-granted || left > rate-granted && r.spec.Algorithm != SlidingLog {
			return
		}
		r.sleep(r.spec.Interval / 100)
	}
	r.fail("%d permits are left after calls whose contexts ended; %d of %d were granted, so want %d",
		left, granted, rate, rate-granted)
}

// endingContextPaced ends the contexts of large requests, one by one: permits that such a request kept would
// be owed for half of the interval.
func endingContextPaced(r *run) {
	const rate = 1000
	for pause := range 12 {
		l := r.limiter(rate)
		ctx, cancel := context.WithCancel(r.t.Context())
		stop := time.AfterFunc(time.Duration(pause)*100*time.Microsecond, cancel).Stop
		result, err := r.ask(ctx, l, rate/2)
		ended := ctx.Err()
		stop()
		cancel()
		switch {
		case err == nil && !result.Allowed:
			r.fail("Allow(%d) refuses: %+v; want it to grant or to fail", rate/2, result)
		case err != nil && (ended == nil || !errors.Is(err, ended)):
			r.fail("Allow(%d) returns the error %w; its context has %v", rate/2, err, ended)
		case err == nil:
			continue
		}
		for range 25 {
			if result = r.allow(l, 1); result.Allowed {
				break
			}
			r.sleep(r.spec.Interval / 100)
		}
		if !result.Allowed {
			r.fail("no permits are left after a call whose context ended: %+v", result)
		}
	}
}

// callsThatEnd makes calls whose contexts end meanwhile, and returns the granted permits.
func callsThatEnd(r *run, l limit.Limiter) int64 {
	var granted atomic.Int64
	err := together(16, func(caller int) error {
		for i := range 20 {
			ctx, cancel := context.WithCancel(r.t.Context())
			var stop func() bool
			if pause := caller + i; i%2 == 0 {
				stop = time.AfterFunc(time.Duration(pause)*100*time.Microsecond, cancel).Stop
			} else {
				stop = aside(func() {
					for range pause {
						runtime.Gosched()
					}
					cancel()
				})
			}
			result, err := r.ask(ctx, l, 1)
			ended := ctx.Err()
			stop()
			cancel()
			switch {
			case err == nil && result.Allowed:
				granted.Add(1)
			case err == nil:
				return fmt.Errorf("Allow(1) refuses: %+v; want it to grant or to fail", result)
			case ended == nil || !errors.Is(err, ended):
				return fmt.Errorf("Allow(1) returns the error %w; its context has %v", err, ended)
			}
		}
		return nil
	})
	if err != nil {
		r.fail("%w", err)
	}
	return granted.Load()
}

// aside calls f in a goroutine, and returns a function that waits for its end.
func aside(f func()) (stop func() bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return func() bool {
		<-done
		return false
	}
}

// together calls f in n goroutines at once, and joins the errors.
func together(n int, f func(i int) error) error {
	errs := make([]error, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	all.Wait()
	return errors.Join(errs...)
}

func rateAtOnce(r *run) {
	for _, rate := range []int64{1, 2, 10} {
		l := r.limiter(rate)
		ones := slices.Repeat([]int64{1}, int(rate))
		r.grants(l, ones...)
		r.refused(l, 1)
		r.has(r.limiter(rate), rate)
	}
}

func allOrNone(r *run) {
	l := r.limiter(10)
	r.granted(l, 6)
	r.refused(l, 5)
	r.refused(l, 10)
	r.has(l, r.left(4))
}

// Refusals neither take permits nor delay when they come back.
func refusalTakesNothing(r *run) {
	l := r.limiter(10)
	r.granted(l, 8)
	for range 30 {
		r.refused(l, 3)
	}
	r.has(l, r.left(2))
	wait := r.refused(l, 10).RetryAfter
	for range 3 {
		r.sleep(wait / 8)
		r.refused(l, 10)
	}
	r.sleep(wait - 3*(wait/8))
	r.granted(l, 10)
}

func limitAndInterval(r *run) {
	for _, rate := range []int64{1, 10, 1000} {
		l := r.limiter(rate)
		for _, result := range []limit.Result{r.granted(l, rate), r.refused(l, rate)} {
			if result.Limit != rate || result.Interval != r.spec.Interval {
				r.fail("the Result is %+v; want Limit %d and Interval %v", result, rate, r.spec.Interval)
			}
		}
	}
}

func remaining(r *run) {
	l := r.limiter(10)
	left := func(result limit.Result, want int64) {
		if result.Remaining != want {
			r.fail("Remaining is %d, want %d: %+v", result.Remaining, want, result)
		}
	}
	left(r.granted(l, 1), r.left(9))
	if r.spec.Algorithm != Paced {
		left(r.granted(l, 2), 7)
		left(r.refused(l, 8), 7)
		left(r.granted(l, 7), 0)
	}
	left(r.refused(l, 1), 0)
	left(r.refused(l, 10), 0)
}

// manyCallers asks for one permit each, and then for different numbers.
func manyCallers(r *run) {
	const rate, callers = 50, 64
	for _, most := range []int64{1, 3} {
		l := r.limiter(rate)
		var granted atomic.Int64
		err := together(callers, func(caller int) error {
			for i := range 3 {
				n := 1 + int64(caller+i)%most
				result, err := r.ask(r.t.Context(), l, n)
				if err != nil {
					return err
				}
				if result.Allowed {
					granted.Add(n)
				}
			}
			return nil
		})
		if err != nil {
			r.fail("Allow returns an error: %w", err)
		}
		r.fairly(l, rate, most, granted.Load())
	}
}

// fairly expects that callers that want up to most permits each were granted the rate in all, or one of
// them if the limiter is paced. As no caller is refused while its permits are there, fewer than most
// remain.
func (r *run) fairly(l limit.Limiter, rate, most, got int64) {
	extra := r.returned(rate)
	from, to := rate-most+1, rate+extra
	if r.spec.Algorithm == Paced {
		from, to = 1, most+extra
	}
	if got < from || got > to {
		r.fail("callers together, wanting up to %d permits each, were granted %d of %d", most, got, rate)
	}
	if extra == 0 {
		r.has(l, r.left(rate-got))
	}
}

func twoHandles(r *run) {
	one, other := r.pair(10)
	if r.spec.Algorithm == Paced {
		r.granted(one, 4)
		if wait := r.refused(other, 1).RetryAfter; !r.near(wait, r.spec.Interval*4/10) {
			r.fail("RetryAfter of the other handle is %v, want %v", wait, r.spec.Interval*4/10)
		}
		return
	}
	r.granted(one, 4)
	if left := r.granted(other, 3).Remaining; left != 3 {
		r.fail("Remaining of the other handle is %d, want 3", left)
	}
	r.refused(one, 4)
	r.granted(one, 3)
	r.refused(other, 1)
}
