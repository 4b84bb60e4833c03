package fallback_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// budget is the one that a Client has by default where it has a fallback.
const budget = 250 * time.Millisecond

// fallsBack runs a spec in fake time with a Client that has a fallback, and whose
// scripts pass a gate.
func fallsBack(t *testing.T, rate int64, f rratelimiter.Fallback, spec func(c *Limiter),
	opts ...rratelimiter.Option) {
	t.Helper()
	opts = append(opts, rratelimiter.WithGoOnly(), rratelimiter.WithFallback(f))
	Bubble(t, func(c *Limiter) {
		NoError(c.T, c.SetRate(c.Context(), Overall, rate, time.Second))
		c.Took(1, 0, 0) // the script is known from here on, and the rate
		NoError(c.T, c.Release(c.Context(), 1))
		c.RDB.AddHook(Hook(c.Gate.Process))
		c.Sleep(2 * time.Second)
		spec(c)
	}, opts...)
}

// decides expects what a call gets, and when.
func decides(c *Limiter, l *rratelimiter.RateLimiter, timeout time.Duration, want string,
	after time.Duration) {
	c.Helper()
	start := time.Now()
	ok, err := l.TryAcquire(c.Context(), 1, timeout)
	got := fmt.Sprint(ok)
	if err != nil {
		got = "another error"
		if errors.Is(err, rratelimiter.ErrNoAnswer) && strings.Contains(err.Error(), `"l"`) {
			got = "no answer"
		}
	}
	if took := time.Since(start); got != want || took != after {
		c.Errorf("%s (%v) after %v; want %s after %v", got, err, took, want, after)
	}
}

// Redis is silent: a call returns what its fallback says when its budget is spent,
// whether or not it would wait for permits.
func TestAFallbackDecidesWhenTheBudgetIsSpent(t *testing.T) {
	for _, tt := range []struct {
		fallback rratelimiter.Fallback
		want     string
	}{
		{rratelimiter.FallbackError, "no answer"},
		{rratelimiter.FallbackAllow, "true"},
		{rratelimiter.FallbackDeny, "false"},
		{rratelimiter.FallbackLocal, "true"},
	} {
		fallsBack(t, 10, tt.fallback, func(c *Limiter) {
			open := c.Gate.Shut()
			decides(c, c.RateLimiter, 0, tt.want, budget)
			decides(c, c.RateLimiter, time.Minute, tt.want, budget)
			decides(c, c.RateLimiter, 100*time.Millisecond, tt.want, 100*time.Millisecond+Late)
			decides(c, c.RateLimiter, 0, tt.want, budget)
			decides(c, c.RateLimiter, time.Minute, tt.want, 0) // three have failed: Redis is not asked
			open()
			c.Sleep(time.Minute)
			c.HasTaken(0)
		})
	}
}

// Allow says that Redis did not decide, and Acquire, which cannot say no, returns the
// error where the fallback refuses.
func TestAFallbackSaysThatRedisDidNotDecide(t *testing.T) {
	for fallback, want := range map[rratelimiter.Fallback]rratelimiter.Result{
		rratelimiter.FallbackAllow: {Allowed: true, Limit: 10, Degraded: true},
		rratelimiter.FallbackDeny:  {Limit: 10, RetryAfter: time.Second, Degraded: true},
		rratelimiter.FallbackLocal: {Allowed: true, Limit: 10, Remaining: 7, Degraded: true,
			Interval: time.Second, ResetAfter: 1032 * time.Millisecond},
	} {
		fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *Limiter) {
			open := c.Gate.Shut()
			l := c.RateLimiter.WithFallback(fallback)
			want.Name = l.Name()
			if r, err := l.Allow(c.Context(), 3); err != nil || !reflect.DeepEqual(r, want) {
				t.Errorf("%d: %+v, %v; want %+v", fallback, r, err, want)
			}
			if err := l.Acquire(c.Context(), 1); (fallback == rratelimiter.FallbackDeny) !=
				errors.Is(err, rratelimiter.ErrNoAnswer) ||
				err != nil && fallback != rratelimiter.FallbackDeny {
				t.Errorf("%d: Acquire: %v", fallback, err)
			}
			open()
			c.Sleep(time.Minute)
			r, err := l.Allow(c.Context(), 1)
			if err != nil || r.Degraded || r.Remaining != 9 {
				t.Errorf("%d: %+v, %v; want a reply of Redis", fallback, r, err)
			}
		})
	}
}

// Each call may have a fallback of its own.
func TestEachCallMayHaveAFallbackOfItsOwn(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackDeny, func(c *Limiter) {
		open := c.Gate.Shut()
		decides(c, c.WithFallback(rratelimiter.FallbackAllow), 0, "true", budget)
		decides(c, c.RateLimiter, 0, "false", budget)
		decides(c, c.WithFallback(rratelimiter.FallbackError), 0, "no answer", budget)
		decides(c, c.WithFallback(rratelimiter.FallbackError), 0, "no answer", 0)
		decides(c, c.WithFallback(rratelimiter.FallbackAllow), 0, "true", 0)
		decides(c, c.Other().RateLimiter, 1, "true", 0) // another Client, whose Redis is well
		if n := c.Client.Health().Decided; n != 3 {
			t.Errorf("%d decided without Redis, want 3", n)
		}
		open()
		c.Sleep(time.Minute)
	})
}

// A caller that stands in line for permits has time: Redis is not slow.
func TestTheBudgetIsNotSpentInLine(t *testing.T) {
	fallsBack(t, 1, rratelimiter.FallbackAllow, func(c *Limiter) {
		c.Took(1, 0, 0)
		c.Took(1, time.Minute, time.Second)
		waits := c.Comes(c.Context(), 1, time.Minute)
		c.Sleep(500 * time.Millisecond)
		open := c.Gate.Shut()
		c.Sleep(10 * time.Second)
		if v := waits(); !v.OK || v.After.Round(10*time.Millisecond) != time.Second+budget {
			t.Errorf("%+v; want granted by the fallback when the probe has spent the budget", v)
		}
		open()
		c.Sleep(time.Minute)
		c.HasTaken(0)
	})
}

// The end of the context comes before the budget: the fallback decides before that. A
// caller without time has its context's error.
func TestAFallbackKeepsTheContext(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackAllow, func(c *Limiter) {
		open := c.Gate.Shut()
		for range 5 {
			ctx, cancel := context.WithTimeout(c.Context(), 100*time.Millisecond)
			visit := c.Comes(ctx, 1, time.Minute)
			c.Sleep(time.Second)
			if v := visit(); !v.OK || v.After > 75*time.Millisecond {
				t.Errorf("%+v; want granted within 75 ms", v)
			}
			cancel()
			_, err := c.TryAcquire(ctx, 1, time.Minute)
			if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v; want the end of the context", err)
			}
		}
		open()
		c.Sleep(time.Minute)
	})
}

// An error of the call or the limiter is no failure of Redis. A refusal of Redis
// is one, at once.
func TestWhatCountsAsAFailure(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackAllow, func(c *Limiter) {
		for range 5 {
			none := c.Client.RateLimiter("none")
			for want, err := range map[error]error{
				rratelimiter.ErrPermitsExceedRate: ErrOf(c.TryAcquire(c.Context(), 11, 0)),
				rratelimiter.ErrInvalidArgument:   ErrOf(c.TryAcquire(c.Context(), 0, 0)),
				rratelimiter.ErrNotInitialized:    ErrOf(none.TryAcquire(c.Context(), 1, 0)),
			} {
				if !errors.Is(err, want) {
					t.Errorf("%v, want %v", err, want)
				}
			}
		}
		if c.Client.Health().Degraded {
			t.Error("degraded by errors of callers")
		}
	})
	for _, code := range []string{"OOM no memory", "MISCONF no disk", "NOPERM no right", "ERR unknown"} {
		fallsBack(t, 10, rratelimiter.FallbackDeny, func(c *Limiter) {
			c.RDB.AddHook(Refusing(code, nil))
			for range 5 { // a reply costs no time, and may be about this limiter alone
				decides(c, c.RateLimiter, time.Minute, "false", 0)
			}
			if c.Client.Health().Degraded {
				t.Errorf("%s: Redis is not asked any more, though it replies", code)
			}
		})
	}
}

// After three failures in a row Redis is left alone, but for one probe at a time. When
// it is back, the circuit closes, and the hook reports both.
func TestTheCircuitOpensAndCloses(t *testing.T) {
	hook, degraded := healthHook()
	fallsBack(t, 10, rratelimiter.FallbackAllow, func(c *Limiter) {
		open := c.Gate.Shut()
		for i := range 3 {
			if c.Client.Health().Degraded {
				t.Errorf("degraded after %d failures", i)
			}
			decides(c, c.RateLimiter, 0, "true", budget)
		}
		before := c.Gate.Count()
		for range 600 {
			decides(c, c.RateLimiter, 0, "true", 0)
			c.Sleep(100 * time.Millisecond)
		}
		h := c.Client.Health()
		if !h.Degraded || time.Since(h.Since) < time.Minute || h.Decided != 603 {
			t.Errorf("%+v", h)
		}
		WantErr(t, h.Cause, rratelimiter.ErrNoAnswer)
		if got, want := h.Cause.Error(), "no answer from Redis within "+budget.String(); got != want {
			t.Errorf("%s, want %s, and no limiter", got, want)
		}
		if probes := c.Gate.Count() - before; probes < 15 || probes > 40 {
			t.Errorf("%d requests in a minute, want a probe every 1 to 3 s", probes)
		}
		open()
		c.Sleep(4 * time.Second)
		if h := c.Client.Health(); h.Degraded || h.Cause != nil {
			t.Errorf("%+v; want well", h)
		}
		c.Took(1, 0, 0)
		c.HasTaken(1)
		if got := degraded(); !slices.Equal(got, []bool{true, false}) {
			t.Errorf("the hook was called with degraded %v", got)
		}
	}, hook)
}

// A probe that Close ends is no reply of Redis: the circuit stays open.
func TestCloseLeavesTheCircuitOpen(t *testing.T) {
	hook, degraded := healthHook()
	fallsBack(t, 10, rratelimiter.FallbackAllow, func(c *Limiter) {
		defer c.Gate.Shut()()
		for range 3 {
			decides(c, c.RateLimiter, 0, "true", budget)
		}
		c.Sleep(2 * time.Second) // a probe is under way
		NoError(t, c.Client.Close())
		if got := degraded(); !slices.Equal(got, []bool{true}) {
			t.Errorf("the hook was called with degraded %v", got)
		}
	}, hook)
}

// healthHook returns a hook and what it was called with: whether the Client was degraded.
func healthHook() (hook rratelimiter.Option, degraded func() []bool) {
	var mu sync.Mutex
	var calls []bool
	return rratelimiter.WithHealthHook(func(h rratelimiter.Health) {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, h.Degraded)
		}), func() []bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(calls)
		}
}

// Failures count in a row. A caller that has hardly any time says nothing about Redis.
func TestOnlyFailuresInARowOpenTheCircuit(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackDeny, func(c *Limiter) {
		for range 3 {
			open := c.Gate.Shut()
			decides(c, c.RateLimiter, 0, "false", budget)
			decides(c, c.RateLimiter, 0, "false", budget)
			for range 5 {
				ctx, cancel := context.WithTimeout(c.Context(), 10*time.Millisecond)
				NoError(t, No(c.TryAcquire(ctx, 1, 0)))
				cancel()
			}
			if c.Client.Health().Degraded {
				t.Error("degraded after two failures")
			}
			open()
			c.Sleep(time.Minute)
			c.Took(1, 0, 0)
		}
	})
}

// A request that hangs is one failure, however many callers share it.
func TestManyCallersFailOnce(t *testing.T) {
	fallsBack(t, 1000, rratelimiter.FallbackAllow, func(c *Limiter) {
		open := c.Gate.Shut()
		var visits []func() Visit
		for range 100 {
			visits = append(visits, c.Comes(c.Context(), 1, 0))
		}
		c.Sleep(budget)
		for _, visit := range visits {
			if v := visit(); !v.OK || v.After != budget {
				t.Fatalf("%+v", v)
			}
		}
		if c.Client.Health().Degraded {
			t.Error("degraded after one failure")
		}
		open()
		c.Sleep(time.Minute)
		c.HasTaken(0)
	})
}

// Limiting can be turned off and on.
func TestLimitingIsTurnedOff(t *testing.T) {
	Bubble(t, func(c *Limiter) {
		NoError(c.T, c.SetRate(c.Context(), Overall, 1, time.Hour))
		c.Took(1, 0, 0)
		c.Client.SetLimiting(false)
		for range 10 {
			c.Took(1, 0, 0)
		}
		r, err := c.Allow(c.Context(), 5)
		if err != nil || !r.Allowed || !r.Degraded {
			t.Errorf("%+v, %v", r, err)
		}
		NoError(c.T, c.Release(c.Context(), 1)) // of what was not taken: nothing goes back
		c.Client.SetLimiting(true)
		NoError(t, No(c.TryAcquire(c.Context(), 1, 0)))
		WantErr(t, ErrOf(c.TryAcquire(c.Context(), 0, 0)), rratelimiter.ErrInvalidArgument)
	})
}
