package waiting_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/faults"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// Redis says nothing. A caller with a timeout returns when that passes, a
// caller with a context when that ends, wherever the caller stands. Nothing is
// kept.
func TestTimeoutsHoldWhenRedisSaysNothing(t *testing.T) {
	GatedBubble(t, 10, time.Hour, func(c *Limiter) {
		open := c.Gate.Shut()
		first := c.Comes(c.Context(), 1, 400*time.Millisecond)
		second := c.Comes(c.Context(), 2, 300*time.Millisecond)
		ctx, cancel := context.WithTimeout(c.Context(), 200*time.Millisecond)
		defer cancel()
		third := c.Comes(ctx, 3, time.Minute)
		fourth := c.Comes(ctx, 3, 0)
		c.Sleep(time.Minute)
		for i, want := range []struct {
			visit Visit
			after time.Duration
			err   error
		}{
			{first(), 400*time.Millisecond + Late, rratelimiter.ErrNoAnswer},
			{second(), 300*time.Millisecond + Late, rratelimiter.ErrNoAnswer},
			{third(), 200 * time.Millisecond, context.DeadlineExceeded},
			{fourth(), 200 * time.Millisecond, context.DeadlineExceeded},
		} {
			v := want.visit
			if exact := v.After - want.after; !errors.Is(v.Err, want.err) || v.OK || exact < 0 ||
				exact > 5*time.Millisecond {
				t.Errorf("caller %d: %+v; want %v after %v", i, v, want.err, want.after)
			}
		}
		open()
		c.Sleep(time.Minute)
		c.HasTaken(0)
	})
}

// Redis has refused, and then says nothing. Until the permits are due the result is
// no. After that the outcome is unknown.
func TestTimeoutsInLineHoldWhenRedisSaysNothing(t *testing.T) {
	GatedBubble(t, 1, time.Second, func(c *Limiter) {
		c.Took(1, 0, 0)
		before := c.Comes(c.Context(), 1, 600*time.Millisecond)
		after := c.Comes(c.Context(), 1, 1200*time.Millisecond)
		c.Sleep(100 * time.Millisecond)
		open := c.Gate.Shut()
		c.Sleep(time.Minute)
		if v := before(); v.OK || v.Err != nil || v.After != 600*time.Millisecond+Late {
			t.Errorf("%+v; want refused after 630ms", v)
		}
		if v := after(); !errors.Is(v.Err, rratelimiter.ErrNoAnswer) ||
			v.After < 1200*time.Millisecond+Late || v.After > 1240*time.Millisecond {
			t.Errorf("%+v; want ErrNoAnswer after 1230ms", v)
		}
		open()
		c.Sleep(time.Minute)
		c.HasTaken(0)
	})
}

// A slow Redis still says yes or no to a timeout that passes meanwhile.
func TestASlowAnswerIsWaitedFor(t *testing.T) {
	GatedBubble(t, 1, time.Hour, func(c *Limiter) {
		for i, want := range []bool{true, false} {
			open := c.Gate.Shut()
			v := c.Comes(c.Context(), 1, 10*time.Millisecond)
			c.Sleep(Late)
			open()
			synctest.Wait()
			if v := v(); v.OK != want || v.Err != nil || v.After != Late {
				t.Errorf("%d: %+v; want %v after %v", i, v, want, Late)
			}
		}
	})
}

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

// Callers behind a call that hangs, which have no other bound, share its error
// instead of paying for their own.
func TestACallThatHangsIsPaidOnce(t *testing.T) {
	s := redistest.Start(t)
	c := rratelimiter.New(s.Client(t, func(o *redis.Options) {
		o.ReadTimeout, o.MaxRetries = 2*time.Second, -1
	}))
	defer c.Close()
	l := c.RateLimiter("l")
	NoError(t, l.SetRate(t.Context(), Overall, 10, time.Hour))
	NoError(t, ErrOf(l.Allow(t.Context(), 1)))
	s.Freeze(t)
	start := time.Now()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := l.Allow(context.Background(), 1); err == nil {
				t.Error("a reply of a server that is stopped")
			}
		})
	}
	all.Wait()
	if took := time.Since(start); took > 3500*time.Millisecond {
		t.Errorf("the last returned after %v, want the ReadTimeout of 2s and not twice that", took)
	}
}

// A server is stopped, and go-redis has its defaults. All callers return in
// time, and when the server goes on nothing was kept.
func TestTimeoutsHoldOnAStoppedServer(t *testing.T) {
	for _, callers := range []int{1, 20, 10_000} {
		s := redistest.Start(t)
		c := rratelimiter.New(s.Client(t))
		l := c.RateLimiter("l")
		NoError(t, l.SetRate(t.Context(), Overall, 20_000, time.Hour))
		NoError(t, ErrOf(l.Allow(t.Context(), 1)))
		thaw := s.Freeze(t)
		var all sync.WaitGroup
		var mu sync.Mutex
		var worst time.Duration
		for i := range callers {
			all.Go(func() {
				ctx, want := context.Background(), rratelimiter.ErrNoAnswer
				if i%2 == 1 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, 400*time.Millisecond)
					defer cancel()
					want = context.DeadlineExceeded
				}
				start := time.Now()
				ok, err := l.TryAcquire(ctx, 1, 400*time.Millisecond+time.Duration(i%2)*time.Hour)
				if ok || !errors.Is(err, want) {
					t.Errorf("%v, %v; want %v", ok, err, want)
				}
				mu.Lock()
				defer mu.Unlock()
				worst = max(worst, time.Since(start)-400*time.Millisecond)
			})
		}
		all.Wait()
		t.Logf("%d callers: the last %v late", callers, worst)
		if worst > Slack {
			t.Errorf("%d callers: the last %v late", callers, worst)
		}
		thaw()
		Until(t, func() bool {
			n, err := l.AvailablePermits(context.Background())
			return err == nil && n == 20_000-1
		})
		NoError(t, c.Close())
	}
}

// Every method returns when its context ends, and says so.
func TestMethodsEndWithTheirContext(t *testing.T) {
	s, excuse := redistest.Start(t), faults.Excuses(t)
	for _, mod := range []func(*redis.Options){
		func(*redis.Options) {},
		func(o *redis.Options) { o.MaxRetries = -1 },
		func(o *redis.Options) { o.ContextTimeoutEnabled = true },
		func(o *redis.Options) { o.MaxRetries, o.ContextTimeoutEnabled = -1, true },
	} {
		c := rratelimiter.New(s.Client(t, mod))
		l := c.RateLimiter("l")
		NoError(t, l.SetRate(t.Context(), Overall, 10, time.Hour))
		thaw := s.Freeze(t)
		var all sync.WaitGroup
		for name, method := range Methods {
			for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
					defer cancel()
					if end == context.Canceled {
						ctx, cancel = context.WithCancel(t.Context())
						time.AfterFunc(200*time.Millisecond, cancel)
					}
					start := time.Now()
					err := method(ctx, l)
					took := time.Since(start)
					most := 200*time.Millisecond + faults.Promised + excuse(start)
					if !errors.Is(err, end) || took > most {
						t.Errorf("%s: %v after %v; want %v within %v", name, err, took, end, most)
					}
				})
			}
		}
		all.Wait()
		thaw()
		NoError(t, c.Close())
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

// Lines of mixed sizes, timeouts near the moments when permits are due, and rates
// that others change without a word: each caller returns by its timeout.
func TestNoWaiterIsForgotten(t *testing.T) {
	seeds := 20
	if testing.Short() {
		seeds = 10
	}
	for range seeds {
		seed := rand.Uint64()
		GatedBubble(t, 10, time.Second, func(c *Limiter) {
			random := rand.New(rand.NewPCG(seed, 0))
			interval := time.Duration(100+random.IntN(900)) * time.Millisecond
			rate := 1 + random.Int64N(20)
			c.Want(c.SetRate(c.Context(), Overall, rate, interval))
			many, kinds := 1+random.IntN(700), 1+random.Int64N(min(rate, 7))
			var mu sync.Mutex
			var all sync.WaitGroup
			answers := 0
			for i := range many {
				timeout := interval * time.Duration(1+random.IntN(4))
				if random.IntN(2) == 0 {
					timeout += time.Duration(random.IntN(5)-2) * time.Millisecond
				}
				permits, leaves := 1+random.Int64N(kinds), random.IntN(8) == 0
				pause := time.Duration(random.IntN(3)) * time.Millisecond
				all.Go(func() {
					ctx, cancel := context.WithCancel(c.Context())
					defer cancel()
					if leaves {
						time.AfterFunc(timeout/2, cancel)
					}
					start := time.Now()
					_, err := c.TryAcquire(ctx, permits, timeout)
					after := time.Since(start)
					if after > timeout+time.Millisecond ||
						err != nil && !leaves && !errors.Is(err, rratelimiter.ErrPermitsExceedRate) {
						c.Errorf("seed %d: caller %d of %d: %v after %v of %v", seed, i, many, err, after,
							timeout)
					}
					mu.Lock()
					defer mu.Unlock()
					answers++
				})
				if pause > 1 {
					time.Sleep(pause)
				}
				if random.IntN(100) == 0 { // without a message
					c.Mini.HSet("l", "rate", []string{"1", "3", "40", "1000"}[random.IntN(4)])
				}
			}
			time.Sleep(time.Minute)
			all.Wait()
			if answers != many {
				c.Errorf("seed %d: %d of %d callers returned", seed, answers, many)
			}
		})
	}
}

// A rate was raised without a word. All in line are served, or refused, in time,
// though no batch had room for those at the end.
func TestALineWhoseRateWasRaisedIsAnswered(t *testing.T) {
	GatedBubble(t, 1, time.Minute, func(c *Limiter) {
		c.Took(1, 0, 0)
		var visits []func() Visit
		for range 50 {
			visits = append(visits, c.Comes(c.Context(), 1, 2*time.Second))
		}
		c.Mini.HSet("l", "rate", "30")
		NoError(c.T, c.Mini.Set("{l}:value", "29"))
		c.Sleep(time.Minute)
		served := 0
		for i, visit := range visits {
			v := visit()
			if !v.Done || v.Err != nil || v.After > 2*time.Second {
				c.Errorf("caller %d: %+v", i, v)
			}
			if v.OK {
				served++
			}
		}
		if served != 29 {
			c.Errorf("%d served, want the 29 that the rate had left", served)
		}
	})
}
