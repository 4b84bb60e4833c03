package refusals_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// inBubble runs a spec in fake time, with a Client that remembers refusals for a minute, and a function that
// returns how many round trips were made since its last call.
func inBubble(t *testing.T, spec func(t *testing.T, c *rratelimiter.Client, trips func() int64)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		made := redistest.RoundTrips(rdb)
		c := NewClient(t, rdb, rratelimiter.WithRefusalCache(time.Minute))
		trips := func() int64 { return made.Swap(0) }
		spec(t, c, trips)
	})
}

// allow expects a result of Allow.
func allow(t *testing.T, l limit.Limiter, n int64, want bool) limit.Result {
	t.Helper()
	r := redistest.Must(l.Allow(t.Context(), n))(t)
	if r.Allowed != want {
		t.Fatalf("Allow(%d): %v, want %v", n, r, want)
	}
	return r
}

// Of a flood of refused calls, one in a millisecond asks Redis. The numbers go on, and permits are granted
// when they are due.
func TestAFloodOfRefusedCallsAsksOnceInAMillisecond(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rratelimiter.Client, trips func() int64) {
		l := c.RateLimiter("l").WithRate(5, 10*time.Second)
		allow(t, l, 5, true)
		allow(t, l, 1, false)
		trips()
		for range 1000 {
			allow(t, l, 1, false)
		}
		if n := trips(); n > 0 {
			t.Errorf("%d round trips within the first millisecond", n)
		}
		time.Sleep(600 * time.Microsecond)
		r := allow(t, l, 1, false)
		want := 10*time.Second - 600*time.Microsecond
		if r.RetryAfter != want || r.ResetAfter < want || r.ResetAfter > want+time.Millisecond ||
			r.Remaining != 0 || r.Limit != 5 || r.Interval != 10*time.Second || trips() > 0 {
			t.Errorf("in memory: %+v, want a RetryAfter of %v", r, want)
		}
		for range 100 {
			time.Sleep(time.Millisecond)
			for range 10 {
				allow(t, l, 1, false)
			}
		}
		if n := trips(); n != 100 {
			t.Errorf("%d round trips in 100 ms", n)
		}
		time.Sleep(allow(t, l, 1, false).RetryAfter)
		allow(t, l, 1, true)
	})
}

// A Client's own releases, settlements and rates count at once.
func TestOwnWritesCountAtOnce(t *testing.T) {
	for _, name := range []string{"Release", "Settle", "SetRate", "Delete", "Rename"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *rratelimiter.Client, _ func() int64) {
				l := c.RateLimiter("l").WithRate(5, time.Minute)
				r := redistest.Must(l.Reserve(t.Context(), 3, 0))(t)
				allow(t, l, 2, true)
				for range 2 {
					allow(t, l, 1, false)
				}
				if gives := Methods[name]; gives != nil {
					NoError(t, gives(t.Context(), l))
				} else {
					NoError(t, r.Settle(t.Context(), 0))
				}
				allow(t, c.RateLimiter("l").WithRate(5, time.Minute), 1, true)
			})
		})
	}
}

// Calls that free nothing leave the refusals in memory.
func TestReadsLeaveRefusalsInMemory(t *testing.T) {
	for _, name := range []string{
		"Peek", "AvailablePermits", "Config", "Exists", "RemainTimeToLive", "ExpireTime", "a refused Group",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *rratelimiter.Client, trips func() int64) {
				l := c.RateLimiter("l").WithRate(5, time.Hour)
				reads := Methods[name]
				if reads == nil {
					group := c.All(l, c.RateLimiter("m").WithRate(5, time.Hour))
					reads = func(ctx context.Context, _ *rratelimiter.RateLimiter) error {
						return ErrOf(group.TryAcquire(ctx, 1, 0))
					}
				}
				allow(t, l, 5, true)
				allow(t, l, 1, false)
				NoError(t, reads(t.Context(), l))
				trips()
				allow(t, l, 1, false)
				if n := trips(); n != 0 {
					t.Errorf("the next refused call asked Redis")
				}
			})
		})
	}
}

func TestWritesOfOtherProcessesCountWithinAMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		c := NewClient(t, rdb, rratelimiter.WithRefusalCache(time.Minute))
		one := c.RateLimiter("l").WithRate(5, time.Minute)
		other := NewClient(t, rdb).RateLimiter("l")
		allow(t, one, 5, true)
		allow(t, one, 1, false)
		NoError(t, other.Release(t.Context(), 1))
		allow(t, one, 1, false)
		time.Sleep(time.Millisecond)
		allow(t, one, 1, true)
	})
}

// Callers that wait, other numbers of permits, other rates and calls without numbers ask Redis.
func TestOnlyEqualCallsAreRefusedInMemory(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rratelimiter.Client, trips func() int64) {
		l := c.RateLimiter("l").WithRate(5, time.Minute)
		allow(t, l, 4, true)
		for _, n := range []int64{2, 3, 6} {
			trips()
			_, err := l.TryAcquire(t.Context(), n, 0)
			if n > 5 != (err != nil) || trips() != 1 {
				t.Errorf("TryAcquire(%d): %v", n, err)
			}
		}
		allow(t, l, 2, false) // a refusal without numbers does not have them
		if trips() != 1 {
			t.Error("Allow did not ask after TryAcquire")
		}
		ok, err := l.TryAcquire(t.Context(), 2, 0)
		if ok || err != nil || trips() != 0 {
			t.Errorf("TryAcquire asked after Allow: %v, %v", ok, err)
		}
		allow(t, c.RateLimiter("l").WithRate(9, time.Minute), 2, true)
		allow(t, l, 1, false) // 6 of 5 are taken
		allow(t, l, 1, false)
		start := time.Now()
		ok, err = l.TryAcquire(t.Context(), 1, time.Hour)
		if took := time.Since(start); !ok || err != nil || took < time.Minute {
			t.Errorf("a caller that waits: %v, %v after %v", ok, err, took)
		}
		allow(t, l, 1, true)
	})
}

// A Client that remembers refusals decides as one that asks each time, by whichever calls.
func TestMemoryDecidesAsRedisDoes(t *testing.T) {
	for seed := range uint64(redistest.Rounds(t, 40)) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 30))
			var both [2]*rratelimiter.RateLimiter
			for i := range both {
				rdb := redistest.MiniClient(t, redistest.Mini(t))
				c := NewClient(t, rdb, rratelimiter.WithRefusalCache([]time.Duration{
					time.Millisecond, time.Minute,
				}[random.IntN(2)]))
				if i == 1 {
					c = NewClient(t, rdb)
				}
				both[i] = c.RateLimiter("l").WithRate(1+int64(seed%9), 20*time.Millisecond)
			}
			for range 300 {
				time.Sleep(time.Duration(random.IntN(900)) * time.Duration(random.IntN(9)) * time.Microsecond)
				n, kind := 1+random.Int64N(3), random.IntN(12)
				var told [2]string
				var calls sync.WaitGroup
				for i, l := range both {
					calls.Go(func() { told[i] = call(t, l, kind, n) })
				}
				calls.Wait()
				if told[0] != told[1] {
					t.Fatalf("seed %d, call %d of %d permits:\nwith memory %s\nwithout     %s",
						seed, kind, n, told[0], told[1])
				}
			}
		})
	}
}

// call makes a call of a kind, and returns what it returned.
func call(t *testing.T, l *rratelimiter.RateLimiter, kind int, n int64) string {
	t.Helper()
	ctx := t.Context()
	switch kind {
	case 0:
		return fmt.Sprint(l.Release(ctx, n))
	case 1:
		ok, err := l.TryAcquire(ctx, n, 3*time.Millisecond)
		return fmt.Sprint(ok, err)
	case 2:
		return fmt.Sprint(l.AvailablePermits(ctx))
	case 3, 4, 5:
		ok, err := l.TryAcquire(ctx, n, 0)
		return fmt.Sprint(ok, err)
	}
	r, err := l.Allow(ctx, n)
	if !r.Allowed { // a refusal in memory does not know of fewer permits that have come back
		r.Remaining = 0
	}
	return fmt.Sprint(r.Allowed, r.Limit, r.Remaining, r.RetryAfter, err)
}

// While Redis is silent, one caller in a millisecond asks it. The other callers are refused at once.
func TestASilentRedisHoldsUpOneCallInAMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		var silent atomic.Bool
		rdb.AddHook(Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			if silent.Load() {
				<-ctx.Done()
			}
			return next(ctx, cmd)
		}))
		c := NewClient(t, rdb, rratelimiter.WithRefusalCache(time.Minute))
		l := c.RateLimiter("l").WithRate(5, time.Hour)
		allow(t, l, 5, true)
		allow(t, l, 1, false)
		silent.Store(true)
		var asked sync.WaitGroup
		for range 5 {
			time.Sleep(time.Millisecond)
			asked.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := l.Allow(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the caller that asks: %v", err)
				}
			})
			synctest.Wait()
			for range 100 {
				allow(t, l, 1, false)
			}
		}
		asked.Wait()
	})
}
