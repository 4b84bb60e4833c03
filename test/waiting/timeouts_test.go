package waiting_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// Close ends all callers at once, whatever a call under way does.
func TestCloseAnswersAtOnce(t *testing.T) {
	Bubble(t, func(c *Limiter) {
		t := c.T
		NoError(t, c.SetRate(t.Context(), Overall, 3, time.Hour))
		c.Took(3, 0, 0)
		waits := c.Comes(t.Context(), 1, ForAges)
		c.RDB.AddHook(Hook(c.Gate.Process))
		open := c.Gate.Shut()
		visits := []func() Visit{waits, c.Comes(t.Context(), 1, ForAges), c.Comes(t.Context(), 1, 0),
			c.Comes(t.Context(), 4, ForAges)}
		alone := c.Client.RateLimiter("other")
		peeked := make(chan error, 1)
		go func() { _, err := alone.Peek(t.Context()); peeked <- err }()
		synctest.Wait()
		start := time.Now()
		closed := make(chan struct{})
		go func() { _ = c.Client.Close(); close(closed) }()
		synctest.Wait()
		for i, visit := range visits {
			if v := visit(); !v.Done || !errors.Is(v.Err, rratelimiter.ErrClosed) || !v.At.Equal(start) {
				t.Errorf("caller %d: %+v; want ErrClosed at once", i, v)
			}
		}
		if err := <-peeked; !errors.Is(err, rratelimiter.ErrClosed) || !time.Now().Equal(start) {
			t.Errorf("Peek: %v after %v", err, time.Since(start))
		}
		<-closed
		if took := time.Since(start); took != time.Second {
			t.Errorf("Close took %v, want no more than a second", took)
		}
		open()
		synctest.Wait()
	})
}

func TestMethodsEndWithTheirContext(t *testing.T) {
	const bound = 200 * time.Millisecond
	for _, kept := range []bool{false, true} {
		silently(t, func(c *rratelimiter.Client) {
			for name, method := range Methods {
				for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
					ctx, cancel := context.WithTimeout(context.Background(), bound)
					if end == context.Canceled {
						ctx, cancel = context.WithCancel(context.Background())
						time.AfterFunc(bound, cancel)
					}
					start := time.Now()
					err := method(ctx, c.RateLimiter("a"))
					if took := time.Since(start); !errors.Is(err, end) || took > bound {
						t.Errorf("%s: %v after %v; want %v within %v", name, err, took, end, bound)
					}
					cancel()
				}
			}
		}, kept)
	}
}

// Nothing listens. The error says so, and why the call has ended, each once.
func TestErrorsTellWhatTheNetworkSaid(t *testing.T) {
	// The address of a stopped server; its port could be that of another test by now.
	socket := redistest.Must(net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s")}))(t)
	socket.SetUnlinkOnClose(false)
	NoError(t, socket.Close())
	for name, retries := range map[string]int{"as it comes": 0, "no retries": -1} {
		rdb := redis.NewClient(&redis.Options{
			Network: "unix", Addr: socket.Addr().String(), MaxRetries: retries,
		})
		t.Cleanup(func() { _ = rdb.Close() })
		c := NewClient(t, rdb)
		l := c.RateLimiter("api")
		start := time.Now()
		_, err := l.TryAcquire(t.Context(), 1, 1200*time.Millisecond)
		if took := time.Since(start); !errors.Is(err, syscall.ECONNREFUSED) ||
			took > 1200*time.Millisecond+Slack {
			t.Errorf("%s: %v after %v", name, err, took)
		}
		WantText(t, err, `"api"`)
		for method, call := range map[string]func(ctx context.Context) error{
			"Acquire": func(ctx context.Context) error { return l.Acquire(ctx, 1) },
			"Peek":    func(ctx context.Context) error { return ErrOf(l.Peek(ctx)) },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
			err := call(ctx)
			cancel()
			if !errors.Is(err, syscall.ECONNREFUSED) || strings.Count(err.Error(), "refused") != 1 ||
				name == "as it comes" &&
					(!errors.Is(err, context.DeadlineExceeded) ||
						strings.Count(err.Error(), "exceeded") != 1) {
				t.Errorf("%s, %s: %v", name, method, err)
			}
			WantText(t, err, `"api"`)
		}
	}
}

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
