package waiting_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A deaf connection loses what is written to it while silent is set.
type deaf struct {
	net.Conn
	silent *atomic.Bool
}

func (c deaf) Write(p []byte) (int, error) {
	if c.silent.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// A form of call, by the number of its caller.
type form = func(ctx context.Context, c *rratelimiter.Client, i int) error

const manyLimiters = ", each of its own limiter"

// forms are all methods, and those of a Group.
func forms() map[string]form {
	all := map[string]form{}
	pair := func(c *rratelimiter.Client) *rratelimiter.Group {
		return c.All(c.RateLimiter("a"), c.RateLimiter("b"))
	}
	for name, method := range Methods {
		all[name] = func(ctx context.Context, c *rratelimiter.Client, _ int) error {
			return method(ctx, c.RateLimiter("a"))
		}
	}
	for name, method := range map[string]func(ctx context.Context, g *rratelimiter.Group) error{
		"TryAcquire": func(ctx context.Context, g *rratelimiter.Group) error {
			return ErrOf(g.TryAcquire(ctx, 1, 0))
		},
		"Acquire": func(ctx context.Context, g *rratelimiter.Group) error { return g.Acquire(ctx, 1) },
		"Release": func(ctx context.Context, g *rratelimiter.Group) error { return g.Release(ctx, 1) },
		"Charge": func(ctx context.Context, g *rratelimiter.Group) error {
			return ErrOf(g.Charge(ctx, 1))
		},
	} {
		all["Group."+name] = func(ctx context.Context, c *rratelimiter.Client, _ int) error {
			return method(ctx, pair(c))
		}
	}
	for _, name := range []string{"Allow", "Peek", "TryReserve"} {
		all[name+manyLimiters] = func(ctx context.Context, c *rratelimiter.Client, i int) error {
			return Methods[name](ctx, c.RateLimiter(strconv.Itoa(i)))
		}
	}
	return all
}

// A caller without a timeout or deadline waits for a silent Redis as long as go-redis does, however many
// callers are ahead of it: they share what the calls under way cost.
func TestCallersAheadDoNotMultiplyTheSilence(t *testing.T) {
	const most = 25 * time.Second // 4 attempts of 5 s, and one for the way to a connection
	for name, call := range forms() {
		callers := 50
		if strings.HasSuffix(name, manyLimiters) {
			callers = 1000
		}
		t.Run(name, func(t *testing.T) {
			silently(t, func(c *rratelimiter.Client) {
				took := together(callers, func(i int) {
					if err := call(context.Background(), c, i); !errors.Is(err, rratelimiter.ErrNoAnswer) {
						t.Errorf("%v, want ErrNoAnswer", err)
					}
				})
				if took > most {
					t.Errorf("%d callers waited for up to %v, want at most %v", callers, took, most)
				}
			}, false)
		})
	}
}

// Behind callers whose deadlines are nearly as long, callers without one wait for 50 s at most.
func TestACrowdWaitsForABoundedTime(t *testing.T) {
	const most, dated = 50 * time.Second, 19 * time.Second
	for name, call := range forms() {
		callers := 100
		if strings.HasSuffix(name, manyLimiters) {
			callers = 1000
		}
		t.Run(name, func(t *testing.T) {
			silently(t, func(c *rratelimiter.Client) {
				if took := together(callers, func(i int) {
					ctx, cancel := context.WithTimeout(context.Background(), dated)
					defer cancel()
					if i%2 == 1 { // it comes later
						time.Sleep(dated / 2)
						ctx = context.Background()
					}
					err, late := call(ctx, c, i), context.DeadlineExceeded
					if !errors.Is(err, rratelimiter.ErrNoAnswer) && !errors.Is(err, late) {
						t.Errorf("%v, want ErrNoAnswer or %v", err, late)
					}
				}); took > most {
					t.Errorf("%d callers waited for up to %v, want at most %v", callers, took, most)
				}
			}, false)
		})
	}
}

// A budget holds on a silent Redis, whether the library keeps it or go-redis does (ContextTimeoutEnabled).
func TestBudgetsHoldForTheLibraryAndForGoRedis(t *testing.T) {
	const budget = 250 * time.Millisecond
	for _, kept := range []bool{false, true} {
		for _, callers := range []int{1, 5} {
			t.Run(fmt.Sprint(callers, " callers, by go-redis ", kept), func(t *testing.T) {
				silently(t, func(c *rratelimiter.Client) {
					for _, timeout := range []time.Duration{0, 10 * time.Millisecond, time.Minute} {
						want, word := budget, " within 250ms"
						if timeout > 0 && timeout < budget {
							want, word = timeout+Late, ""
						}
						took := together(callers, func(int) {
							_, err := c.RateLimiter("a").TryAcquire(context.Background(), 1, timeout)
							if !errors.Is(err, rratelimiter.ErrNoAnswer) ||
								!strings.Contains(err.Error(), word) {
								t.Errorf("timeout %v: %v", timeout, err)
							}
						})
						if took < want || took > want+5*time.Millisecond {
							t.Errorf("timeout %v: %v, want %v", timeout, took, want)
						}
						time.Sleep(time.Minute)
					}
				}, kept, rratelimiter.WithBudget(budget))
			})
		}
	}
}

// Timeouts and deadlines hold on a silent Redis without a budget, for callers of one limiter and of several.
func TestTimeoutsHoldForTheLibraryAndForGoRedis(t *testing.T) {
	const bound = 400 * time.Millisecond
	for _, kept := range []bool{false, true} {
		silently(t, func(c *rratelimiter.Client) {
			took := together(12, func(i int) {
				ctx, timeout, want := context.Background(), bound, rratelimiter.ErrNoAnswer
				if i%2 == 1 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, bound)
					defer cancel()
					timeout, want = 0, context.DeadlineExceeded
				}
				ok, err := c.RateLimiter(strconv.Itoa(i/2%4)).TryAcquire(ctx, 1, timeout)
				if ok || !errors.Is(err, want) {
					t.Errorf("kept by go-redis %v, caller %d: %v, %v; want %v", kept, i, ok, err, want)
				}
			})
			if took < bound || took > bound+Late {
				t.Errorf("kept by go-redis %v: %v, want %v", kept, took, bound)
			}
		}, kept)
	}
}

// silently runs a test in fake time with a Client whose Redis has fallen silent.
func silently(t *testing.T, test func(c *rratelimiter.Client), kept bool, opts ...rratelimiter.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		rdb := redistest.MiniClient(t, redistest.Mini(t), func(o *redis.Options) {
			o.ContextTimeoutEnabled = kept
			dial := o.Dialer
			o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dial(ctx, network, addr)
				return deaf{conn, &silent}, err
			}
		})
		c := rratelimiter.New(rdb, opts...)
		for _, name := range []string{"a", "b"} {
			NoError(t, c.RateLimiter(name).SetRate(t.Context(), Overall, 1000, time.Hour))
		}
		silent.Store(true)
		test(c)
		NoError(t, c.Close())
		time.Sleep(time.Minute) // all attempts in the background have ended
	})
}

// together runs calls at once, and returns how long the last of them took.
func together(calls int, call func(i int)) time.Duration {
	start := time.Now()
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() { call(i) })
	}
	all.Wait()
	return time.Since(start)
}

// The end of one caller's context or timeout is not the end of the next caller:
// the next caller gets a result of its own.
func TestTheEndOfOneCallerIsNoResultOfOthers(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t, func(o *redis.Options) { o.PoolSize, o.PoolTimeout = 1, 20*time.Second })
	c := rratelimiter.New(rdb)
	defer c.Close()
	l := c.RateLimiter("l")
	NoError(t, l.SetRate(t.Context(), Overall, 10, time.Hour))
	NoError(t, ErrOf(l.Allow(t.Context(), 1)))
	for name, first := range map[string]func(ctx context.Context) error{
		"a timeout": func(ctx context.Context) error {
			return ErrOf(l.TryAcquire(ctx, 1, 400*time.Millisecond))
		},
		"a context": func(ctx context.Context) error { return ErrOf(l.TryAcquire(ctx, 1, 0)) },
	} {
		conn := rdb.Conn()
		NoError(t, conn.Ping(t.Context()).Err()) // it has the only connection
		ctx := t.Context()
		if name == "a context" {
			ctx = TimeLimit(t, 400*time.Millisecond)
		}
		firstIn, secondIn := Arriving(ctx), Arriving(t.Context())
		told, answered := make(chan error, 1), make(chan error, 1)
		go func() { told <- first(firstIn) }()
		Receive(t, firstIn.Came)
		go func() { answered <- l.Acquire(secondIn, 1) }()
		Receive(t, secondIn.Came)
		err := Receive(t, told)
		if !errors.Is(err, rratelimiter.ErrNoAnswer) && !errors.Is(err, context.DeadlineExceeded) ||
			errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if len(answered) > 0 {
			t.Fatalf("%s: the second was answered without a connection: %v", name, <-answered)
		}
		NoError(t, conn.Close())
		if err := Receive(t, answered); err != nil {
			t.Errorf("%s: the second: %v", name, err)
		}
	}
}

func TestOneConnectionThatHangsDelaysNoOther(t *testing.T) {
	n := NewProxied(t, 10, time.Hour, func(o *redis.Options) { o.ReadTimeout = 20 * time.Second })
	n.Proxy.HoldNext(1, IsScript)
	start := time.Now()
	for granted := false; !granted; {
		ok, err := n.TryAcquire(t.Context(), 1, 100*time.Millisecond)
		if err != nil && !errors.Is(err, rratelimiter.ErrNoAnswer) {
			t.Fatal(err)
		}
		if granted = ok; time.Since(start) > 10*time.Second {
			t.Fatal("nothing is granted as long as one connection hangs")
		}
	}
	if n.Proxy.Held() != 1 {
		t.Error("no connection hangs")
	}
}
