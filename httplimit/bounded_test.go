package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/limit"
)

// endsWith checks that ctx has ended with want, or has not if that is nil: Done is closed
// if and only if Err is not nil, whichever is looked at first.
func endsWith(ctx context.Context, t *testing.T, what string, want error) {
	t.Helper()
	look := func() {
		t.Helper()
		select {
		case <-ctx.Done():
			if want == nil {
				t.Errorf("%s: done", what)
			}
		default:
			if want != nil {
				t.Errorf("%s: not done", what)
			}
		}
	}
	look()
	if got := ctx.Err(); !errors.Is(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
	look()
}

// The context of the limiter ends at its time, and once, whether somebody has asked for its
// end before or not. It has the values of the request, and outlives its visitor.
func TestContextOfTheLimiter(t *testing.T) {
	type key struct{}
	for _, asked := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			request, leave := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
			ctx, end := httplimit.WithTimeLimit(request, time.Second)
			polled, endPolled := httplimit.WithTimeLimit(request, time.Second)
			defer endPolled()
			if asked {
				endsWith(ctx, t, "at first", nil)
			}
			if at, ok := ctx.Deadline(); !ok || time.Until(at) != time.Second || ctx.Value(key{}) != "value" {
				t.Errorf("%v %v %v", at, ok, ctx.Value(key{}))
			}
			leave()
			time.Sleep(time.Second - time.Nanosecond)
			synctest.Wait()
			if err := ctx.Err(); err != nil {
				t.Errorf("before its time: %v", err)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			endsWith(ctx, t, "after its time", context.DeadlineExceeded)
			if err := polled.Err(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("without a timer: %v", err)
			}
			endsWith(polled, t, "without a timer", context.DeadlineExceeded)
			end()
			endsWith(ctx, t, "after its end, too", context.DeadlineExceeded)
		})
	}
}

// Who waits for the end waits until then, or until a deadline of the request that is earlier.
func TestContextOfTheLimiterWakes(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{
		time.Millisecond: time.Millisecond, time.Minute: time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			request, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			ctx, end := httplimit.WithTimeLimit(request, timeout)
			defer end()
			if at, ok := ctx.Deadline(); !ok || at.Sub(start) != want {
				t.Errorf("%v %v", at, ok)
			}
			<-ctx.Done()
			if took := time.Since(start); took != want {
				t.Errorf("took %v, want %v", took, want)
			}
			endsWith(ctx, t, timeout.String(), context.DeadlineExceeded)
		})
	}
}

// After its end nothing is left: no timer, and nobody who waits.
func TestContextOfTheLimiterIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := httplimit.WithTimeLimit(t.Context(), time.Hour)
		go func() { <-ctx.Done() }() // a synctest fails if it is left
		synctest.Wait()
		start := time.Now()
		end()
		end()
		if httplimit.TimerRuns(ctx) {
			t.Error("the timer runs on")
		}
		endsWith(ctx, t, "ended", context.Canceled)
		synctest.Wait()
		if took := time.Since(start); took != 0 {
			t.Errorf("the end took %v", took)
		}
		late, endLate := httplimit.WithTimeLimit(t.Context(), time.Hour)
		endLate()
		endsWith(late, t, "asked for late", context.Canceled)
		if httplimit.TimerRuns(late) {
			t.Error("a timer was made after the end")
		}
	})
}

// Contexts that are derived end with it, and cost no goroutine.
func TestContextOfTheLimiterHasChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for what, want := range map[string]error{
			"at its time": context.DeadlineExceeded, "at its end": context.Canceled,
		} {
			ctx, end := httplimit.WithTimeLimit(t.Context(), time.Second)
			goroutines := runtime.NumGoroutine()
			child, cancel := context.WithCancel(ctx)
			other, cancelOther := context.WithTimeout(ctx, time.Hour)
			released, release := context.WithCancelCause(ctx)
			if n := runtime.NumGoroutine(); n != goroutines {
				t.Errorf("children cost %d goroutines", n-goroutines)
			}
			release(errSecret)
			endsWith(child, t, "a child that is not released", nil)
			if errors.Is(want, context.DeadlineExceeded) {
				time.Sleep(time.Second)
			} else {
				end()
			}
			synctest.Wait()
			endsWith(child, t, what+": a child", want)
			endsWith(other, t, what+": another", want)
			if got := context.Cause(other); !errors.Is(got, want) {
				t.Errorf("%s: the cause is %v, want %v", what, got, want)
			}
			if got := context.Cause(released); !errors.Is(got, errSecret) {
				t.Errorf("%s: the cause of one that had ended is %v", what, got)
			}
			late, cancelLate := context.WithCancel(ctx)
			synctest.Wait()
			endsWith(late, t, what+": a child that is made then", want)
			cancel()
			cancelOther()
			cancelLate()
			end()
		}
	})
}

// What package context has called at the end is called once, also if it is the first that
// waits, and if it comes after the end.
func TestContextOfTheLimiterCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := httplimit.WithTimeLimit(t.Context(), time.Second)
		defer end()
		var calls atomic.Int32
		after := func(ctx context.Context) (stop func() bool) {
			caller, ok := ctx.(interface {
				AfterFunc(f func()) (stop func() bool)
			})
			if !ok {
				t.Fatal("no AfterFunc")
			}
			return caller.AfterFunc(func() { calls.Add(1) })
		}
		after(ctx)
		if !after(ctx)() {
			t.Error("not stopped")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls at the end, want 1", n)
		}
		late, endLate := httplimit.WithTimeLimit(t.Context(), time.Second)
		endLate()
		after(late)
		synctest.Wait()
		if n := calls.Load(); n != 2 {
			t.Errorf("%d calls after the end, want 2", n)
		}
	})
}

// What the limiter was given has ended when it has answered, and its timer with it.
func TestContextEndsWithTheAnswer(t *testing.T) {
	var kept context.Context
	keeps := limit.KeyedFunc(func(ctx context.Context, _ string, _ int64) (limit.Result, error) {
		kept = ctx
		endsWith(ctx, t, "the limiter is asked", nil)
		return granted, nil
	})
	status(t, visit(newMiddleware(t, keeps, all, httplimit.WithTimeout(time.Hour)), get(t)), http.StatusOK)
	if httplimit.TimerRuns(kept) {
		t.Error("the timer runs on")
	}
	endsWith(kept, t, "the limiter has answered", context.Canceled)
}

// A visitor who has gone holds the limiter's answer no longer than WithTimeout says, or the
// deadline of the request. Nobody is served, told or blamed.
func TestVisitorIsGone(t *testing.T) {
	for name, test := range map[string]struct {
		leaves   time.Duration // after which the visitor goes; 0 is before the limiter is asked
		deadline time.Duration // of the request
		want     time.Duration
		asked    bool
	}{
		"before":       {0, time.Hour, 0, false},
		"meanwhile":    {20 * time.Millisecond, time.Hour, 100 * time.Millisecond, true},
		"its deadline": {time.Hour, 50 * time.Millisecond, 50 * time.Millisecond, true},
		"with both":    {time.Hour, 100 * time.Millisecond, 100 * time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
				defer cancel()
				if test.leaves == 0 {
					cancel()
				}
				defer time.AfterFunc(test.leaves, cancel).Stop()
				asked, start := false, time.Now()
				silent := limit.KeyedFunc(func(ctx context.Context, _ string, _ int64) (limit.Result, error) {
					asked = true
					<-ctx.Done()
					return limit.Result{}, ctx.Err()
				})
				blame := func(_ *http.Request, d httplimit.Decision) { t.Errorf("%+v", d) }
				m := newMiddleware(t, silent, all,
					httplimit.WithFallback(httplimit.FallbackAllow), httplimit.WithErrorHook(blame))
				w := visit(m, get(t).WithContext(ctx))
				status(t, w, http.StatusServiceUnavailable)
				if took := time.Since(start); w.Body.Len() > 0 || took != test.want || asked != test.asked {
					t.Errorf("took %v, want %v; asked is %v, want %v; %s",
						took, test.want, asked, test.asked, w.Body)
				}
			})
		})
	}
}
