package rlock_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// goroutine returns the number of the goroutine that calls it.
func goroutine() string {
	stack := make([]byte, 64)
	return strings.Fields(string(stack[:runtime.Stack(stack, false)]))[1]
}

// A request is made in the goroutine of its caller if the caller cannot have to leave before go-redis does:
// its context has no end, or only a deadline, which go-redis keeps.
func TestRequestRunsInTheGoroutineOfItsCaller(t *testing.T) {
	t.Parallel()
	for what, tc := range map[string]struct {
		keeps, cancels, dated bool
		here                  bool
	}{
		"a context without an end":                     {here: true},
		"a context that can be cancelled":              {cancels: true},
		"a deadline":                                   {dated: true},
		"a deadline that go-redis keeps":               {dated: true, keeps: true, here: true},
		"a cancellation that go-redis does not know":   {cancels: true, keeps: true},
		"a context without an end, deadlines are kept": {keeps: true, here: true},
	} {
		t.Run(what, func(t *testing.T) {
			r := viaProxy(t, func(o *redis.Options) { o.ContextTimeoutEnabled = tc.keeps })
			ctx, cancel := context.Background(), context.CancelFunc(func() {})
			if tc.dated {
				ctx, cancel = context.WithTimeout(ctx, patience)
			} else if tc.cancels {
				ctx, cancel = context.WithCancel(ctx)
			}
			defer cancel()
			var requests, elsewhere atomic.Int64
			me := goroutine()
			r.rdb.AddHook(redistest.Hook(func(_ context.Context, cmds ...redis.Cmder) error {
				if !strings.HasPrefix(cmds[0].Name(), "eval") { // of the cleaner
					return nil
				}
				requests.Add(1)
				if goroutine() != me {
					elsewhere.Add(1)
				}
				return nil
			}))
			h := must(r.lock().Lock(ctx))(t)
			noError(t, h.Relock(ctx))
			noError(t, h.Unlock(ctx))
			noError(t, h.Unlock(ctx))
			want(t, "requests", requests.Load(), 4)
			want(t, "in another goroutine", elsewhere.Load(), map[bool]int64{true: 0, false: 4}[tc.here])
		})
	}
}

// A lock that is granted in the goroutine of a caller while the Client is closed is given back: Close waits
// for it.
func TestCloseDuringARequestInTheGoroutineOfTheCaller(t *testing.T) {
	r := viaProxy(t)
	locks, end := open(t, r.rdb)
	lock := locks.Lock(r.name)
	c := r.holds(isLock, func() error { return errOf(lock.Lock(context.Background())) })
	closed := async(end)
	for !errors.Is(errOf(lock.IsLocked(context.Background())), rratelimiter.ErrClosed) {
		runtime.Gosched()
	}
	c.arrives()
	wantErr(t, "Lock", comes(t, c.result), rratelimiter.ErrClosed)
	noError(t, comes(t, closed))
	r.free(r.name)
}
