package httplimit_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/httplimit"
)

// The context of the limiter behaves as that of context.WithTimeout, whether somebody has
// asked for its end before or not.
func TestContextOfTheLimiter(t *testing.T) {
	type key struct{}
	for _, asked := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			parent, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
			defer cancel()
			begin := func(timeout time.Duration) (context.Context, func()) {
				ctx, end := httplimit.WithTimeLimit(parent, timeout)
				if asked {
					ctx.Done()
				}
				return ctx, end
			}
			is := func(what string, ctx context.Context, want error) {
				t.Helper()
				if got := ctx.Err(); !errors.Is(got, want) {
					t.Errorf("%s: %v, want %v", what, got, want)
				}
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
			ctx, end := begin(time.Second)
			defer end()
			if at, ok := ctx.Deadline(); !ok || time.Until(at) != time.Second || ctx.Value(key{}) != "value" {
				t.Errorf("%v %v %v", at, ok, ctx.Value(key{}))
			}
			is("at first", ctx, nil)
			goroutines := runtime.NumGoroutine()
			child, cancelChild := context.WithCancel(ctx)
			defer cancelChild()
			if n := runtime.NumGoroutine(); n != goroutines {
				t.Errorf("a child costs %d goroutines", n-goroutines)
			}
			late, endLate := begin(time.Second)
			defer endLate()
			time.Sleep(time.Second)
			synctest.Wait()
			is("after its time", ctx, context.DeadlineExceeded)
			is("its child", child, context.DeadlineExceeded)
			is("asked for late", late, context.DeadlineExceeded)

			gone, endGone := begin(time.Second)
			defer endGone()
			cancel()
			synctest.Wait()
			is("with its parent", gone, context.Canceled)
		})
	}
}

// A deadline of the request that is earlier holds.
func TestContextOfTheLimiterEndsWithTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ctx, end := httplimit.WithTimeLimit(parent, time.Minute)
		if at, ok := ctx.Deadline(); !ok || time.Until(at) != time.Second {
			t.Errorf("%v %v", at, ok)
		}
		<-ctx.Done()
		end()
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Error(ctx.Err())
		}
	})
}
