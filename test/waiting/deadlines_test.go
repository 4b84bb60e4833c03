package waiting_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

func goroutineID() string {
	var stack [64]byte
	return strings.Fields(string(stack[:runtime.Stack(stack[:], false)]))[1]
}

// A lone caller whose timeout and context are kept without a second goroutine needs none.
func TestALoneCallerAsksInItsOwnGoroutine(t *testing.T) {
	s := redistest.Start(t)
	for _, kept := range []bool{false, true} {
		asked := ""
		rdb := s.Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled = kept })
		rdb.AddHook(Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			asked = goroutineID()
			return next(ctx, cmd)
		}))
		c := rratelimiter.New(rdb)
		l := c.RateLimiter(redistest.Name(t))
		NoError(t, l.SetRate(t.Context(), Overall, 100, time.Hour))
		background := context.Background()
		ends, cancel := context.WithCancel(background)
		t.Cleanup(cancel)
		dated, cancelDated := context.WithTimeout(background, time.Minute)
		t.Cleanup(cancelDated)
		budgeted := rratelimiter.New(rdb, rratelimiter.WithBudget(time.Minute)).RateLimiter(l.Name())
		for name, call := range map[string]struct {
			ctx     context.Context
			limiter *rratelimiter.RateLimiter
			timeout time.Duration
			inOwn   bool
		}{
			"neither":            {background, l, 0, true},
			"a deadline":         {dated, l, 0, kept},
			"a timeout":          {background, l, time.Minute, kept},
			"both":               {dated, l, time.Minute, kept},
			"a cancel":           {ends, l, 0, false},
			"a cancel, timeout":  {ends, l, time.Minute, false},
			"a budget":           {background, budgeted, 0, kept},
			"a budget, deadline": {dated, budgeted, 0, kept},
			"a budget, timeout":  {background, budgeted, time.Minute, kept},
			"a budget, a cancel": {ends, budgeted, 0, false},
		} {
			asked = ""
			NoError(t, Yes(call.limiter.TryAcquire(call.ctx, 1, call.timeout)))
			if inOwn := asked == goroutineID(); inOwn != call.inOwn {
				t.Errorf("kept by go-redis %v, %s: own goroutine %v, want %v", kept, name, inOwn, call.inOwn)
			}
		}
		NoError(t, c.Close())
	}
}

// A hook of go-redis that panics, in a caller that recovers as net/http does, holds up no other caller of the
// limiter, and what its request took goes back.
func TestAPanicOfAHookHoldsUpNoOther(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprint("after the reply ", after), func(t *testing.T) {
			s := redistest.Start(t)
			rdb := s.Client(t)
			var panics atomic.Bool
			rdb.AddHook(Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
				if cmd.Name() != "evalsha" || !panics.CompareAndSwap(true, false) {
					return next(ctx, cmd)
				}
				if after {
					NoError(t, next(ctx, cmd))
				}
				panic("a hook")
			}))
			l := NewClient(t, rdb).RateLimiter("l")
			NoError(t, l.SetRate(t.Context(), Overall, 10, time.Hour))
			NoError(t, Yes(l.TryAcquire(context.Background(), 1, 0)))
			func() {
				defer func() { _ = recover() }()
				panics.Store(true)
				_, _ = l.TryAcquire(context.Background(), 1, 0)
			}()
			NoError(t, Yes(l.TryAcquire(t.Context(), 1, time.Minute)))
			Until(t, func() bool {
				n, err := l.AvailablePermits(t.Context())
				return err == nil && n == 8
			})
		})
	}
}
