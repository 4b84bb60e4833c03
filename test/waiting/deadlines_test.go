package waiting_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/faults"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// A silence makes Redis silent for a client, until the function that it returns is called.
type silence = func(*testing.T, *redistest.Server, *redistest.Proxy, *redis.Client) (end func())

var silences = map[string]silence{
	"the server is stopped": func(
		t *testing.T, s *redistest.Server, _ *redistest.Proxy, _ *redis.Client,
	) func() {
		return s.Freeze(t)
	},
	"the network is silent": func(
		_ *testing.T, _ *redistest.Server, p *redistest.Proxy, _ *redis.Client,
	) func() {
		return p.Hold()
	},
	"the pool is exhausted": func(
		t *testing.T, _ *redistest.Server, _ *redistest.Proxy, rdb *redis.Client,
	) func() {
		conn := rdb.Conn()
		NoError(t, conn.Ping(t.Context()).Err())
		return func() { NoError(t, conn.Close()) }
	},
}

// A lone caller, and callers of different limiters, return in time whether the library
// or go-redis ends their requests (ContextTimeoutEnabled), and keep nothing.
func TestTimeoutsHoldForTheLibraryAndForGoRedis(t *testing.T) {
	const limiters, bound = 5, 400 * time.Millisecond
	for name, silence := range silences {
		for _, kept := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, by go-redis %v", name, kept), func(t *testing.T) {
				s := redistest.Start(t)
				p := redistest.StartProxy(t, s.Addr)
				rdb := s.Client(t, func(o *redis.Options) {
					o.Addr, o.ContextTimeoutEnabled = p.Addr, kept
					o.PoolSize, o.PipelinePoolSize, o.PoolTimeout = 1, -1, time.Minute
				})
				c := rratelimiter.New(rdb)
				defer func() { NoError(t, c.Close()) }()
				var ls [limiters]*rratelimiter.RateLimiter
				for i := range ls {
					ls[i] = c.RateLimiter(fmt.Sprint("l", i))
					NoError(t, ls[i].SetRate(t.Context(), Overall, 10, time.Hour))
					NoError(t, ErrOf(ls[i].Allow(t.Context(), 1)))
				}
				end := silence(t, s, p, rdb)
				excuse := faults.Excuses(t)
				var all sync.WaitGroup
				for i, l := range ls {
					all.Go(func() {
						start := time.Now()
						ctx, timeout, want := context.Background(), bound, rratelimiter.ErrNoAnswer
						if i%2 == 1 {
							var cancel context.CancelFunc
							ctx, cancel = context.WithTimeout(ctx, bound)
							defer cancel()
							timeout, want = 0, context.DeadlineExceeded
						}
						ok, err := l.TryAcquire(ctx, 1, timeout)
						if ok || !errors.Is(err, want) {
							t.Errorf("%v, %v; want %v", ok, err, want)
						}
						took := time.Since(start)
						if most := bound + faults.Promised + excuse(start); took < bound || took > most {
							t.Errorf("%v after %v; want %v, and at most %v", err, took, bound, most)
						}
					})
				}
				all.Wait()
				end()
				for _, l := range ls {
					Until(t, func() bool {
						n, err := l.AvailablePermits(t.Context())
						return err == nil && n == 9
					})
				}
			})
		}
	}
}

// goroutineID returns the number of the calling goroutine.
func goroutineID() string {
	var stack [64]byte
	return strings.Fields(string(stack[:runtime.Stack(stack[:], false)]))[1]
}

// A lone caller whose timeout and context are kept without a second goroutine needs
// none.
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
