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
// if and only if Err is not nil, whichever is called first.
func endsWith(ctx context.Context, t *testing.T, what string, want error) {
	t.Helper()
	for range 2 {
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
		if got := ctx.Err(); !errors.Is(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
}

// The context of the limiter ends at its timeout, whether Done was called before or not. It has the
// values of the request, and does not end when the visitor disconnects.
func TestContextEndsAtItsTimeout(t *testing.T) {
	type key struct{}
	for _, doneFirst := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			request, leave := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
			ctx, end := httplimit.WithTimeLimit(request, time.Second)
			polled, endPolled := httplimit.WithTimeLimit(request, time.Second)
			defer endPolled()
			if doneFirst {
				endsWith(ctx, t, "at first", nil)
			}
			if at, ok := ctx.Deadline(); !ok || time.Until(at) != time.Second || ctx.Value(key{}) != "value" {
				t.Errorf("%v %v %v", at, ok, ctx.Value(key{}))
			}
			leave()
			time.Sleep(time.Second - time.Nanosecond)
			if err := ctx.Err(); err != nil {
				t.Errorf("before the timeout: %v", err)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			endsWith(ctx, t, "at the timeout", context.DeadlineExceeded)
			if err := polled.Err(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("without a timer: %v", err)
			}
			endsWith(polled, t, "without a timer", context.DeadlineExceeded)
			end()
			endsWith(ctx, t, "after end", context.DeadlineExceeded)
		})
	}
}

// Done is closed at the timeout, or at an earlier deadline of the request.
func TestContextWakesWaiters(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{
		time.Millisecond: time.Millisecond, time.Minute: time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			request, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			ctx, end := httplimit.WithTimeLimit(request, timeout)
			defer end()
			<-ctx.Done()
			if took := time.Since(start); took != want {
				t.Errorf("took %v, want %v", took, want)
			}
			endsWith(ctx, t, timeout.String(), context.DeadlineExceeded)
		})
	}
}

// After end no timer runs and no goroutine waits.
func TestContextLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, waiting := range []bool{true, false} {
			ctx, end := httplimit.WithTimeLimit(t.Context(), time.Hour)
			if waiting {
				go func() { <-ctx.Done() }() // a synctest fails if it is left
				synctest.Wait()
			}
			end()
			end()
			endsWith(ctx, t, "ended", context.Canceled)
			if httplimit.TimerRuns(ctx) {
				t.Error("the timer still runs")
			}
		}
	})
}

// Derived contexts end with the context, and cost no goroutine.
func TestContextEndsDerivedContexts(t *testing.T) {
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
			endsWith(child, t, "a child", nil)
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

// A function of AfterFunc is called once at the end, or at once after the end, unless it is stopped.
func TestContextCallsAfterFunc(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := httplimit.WithTimeLimit(t.Context(), time.Second)
		defer end()
		var calls atomic.Int32
		after := func(ctx context.Context) (stop func() bool) {
			caller, _ := ctx.(interface {
				AfterFunc(f func()) (stop func() bool)
			})
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

// The context ends when the limiter returns.
func TestContextEndsWithTheCall(t *testing.T) {
	var kept context.Context
	keeps := limit.KeyedFunc(func(ctx context.Context, _ string, _ int64) (limit.Result, error) {
		kept = ctx
		endsWith(ctx, t, "the limiter is called", nil)
		return granted, nil
	})
	status(t, visit(newMiddleware(t, keeps, all, httplimit.WithTimeout(time.Hour)), get(t)), http.StatusOK)
	if httplimit.TimerRuns(kept) {
		t.Error("the timer still runs")
	}
	endsWith(kept, t, "the limiter has returned", context.Canceled)
}

// After a visitor has disconnected, a request lasts until WithTimeout or its own deadline at most. It
// is not served, and no hook is called.
func TestVisitorDisconnects(t *testing.T) {
	for name, test := range map[string]struct {
		leaves   time.Duration // after which the visitor disconnects; 0 is before the limiter is called
		deadline time.Duration // of the request
		want     time.Duration
	}{
		"before":        {0, time.Hour, 0},
		"meanwhile":     {20 * time.Millisecond, time.Hour, 100 * time.Millisecond},
		"deadline":      {time.Hour, 50 * time.Millisecond, 50 * time.Millisecond},
		"both together": {time.Hour, 100 * time.Millisecond, 100 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
			defer cancel()
			if test.leaves == 0 {
				cancel()
			}
			defer time.AfterFunc(test.leaves, cancel).Stop()
			called, start := false, time.Now()
			keyed := limit.KeyedFunc(func(ctx context.Context, key string, n int64) (limit.Result, error) {
				called = true
				return silent(ctx, key, n)
			})
			m := newMiddleware(t, keyed, all, httplimit.WithFallback(httplimit.FallbackAllow),
				httplimit.WithErrorHook(func(_ *http.Request, d httplimit.Decision) { t.Errorf("%+v", d) }))
			w := visit(m, get(t).WithContext(ctx))
			status(t, w, http.StatusServiceUnavailable)
			took := time.Since(start)
			if w.Body.Len() > 0 || took != test.want || called != (test.leaves > 0) {
				t.Errorf("%s: took %v, want %v; called %v; %s", name, took, test.want, called, w.Body)
			}
		})
	}
}
