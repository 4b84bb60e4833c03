package otellimit_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/otellimit"
)

// Each call of a Client is counted once, a call that waited is a span, and a limiter without a Keyed has
// the policy of its name.
func TestObserverOfAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, otellimit.WithPolicy(func(limiterName string) string {
			policy, _, _ := strings.Cut(limiterName, ":")
			return policy
		}))
		c := rratelimiter.New(redistest.MiniClient(t, redistest.Mini(t)), rratelimiter.WithObserver(r))
		defer c.Close()
		limiter := c.RateLimiter("user:alice")
		_, err := limiter.Allow(t.Context(), 1)
		if err == nil {
			t.Fatal("a limiter without a rate allows")
		}
		redistest.NoError(t, limiter.SetRate(t.Context(), rratelimiter.Overall, 10, time.Minute))
		for _, permits := range []int64{7, 1, 3} { // near the limit with the second, refused with the third
			_, err := limiter.Allow(t.Context(), permits)
			redistest.NoError(t, err)
		}
		ok, err := limiter.TryAcquire(t.Context(), 3, time.Second)
		if redistest.NoError(t, err); ok {
			t.Fatal("3 permits of 2 were granted")
		}
		redistest.NoError(t, limiter.Acquire(t.Context(), 3))
		values := r.measured(t)
		for name, want := range map[string]string{
			"rratelimiter.requests{policy=user,result=not_initialized}": "1",
			"rratelimiter.requests{policy=user,result=granted}":         "3",
			"rratelimiter.requests{policy=user,result=refused}":         "2",
			"rratelimiter.permits{policy=user}":                         "11",
			"rratelimiter.near_limit_requests{policy=user}":             "1",
		} {
			if values[name] != want {
				t.Errorf("%s is %q, want %s", name, values[name], want)
			}
		}
		waited := values["rratelimiter.request.time_in_queue{policy=user,result=granted}"]
		if !strings.HasPrefix(waited, "1 of 59") {
			t.Errorf("waited %q, want once and 59 s", waited)
		}
		spans := r.spans.GetSpans()
		if len(spans) != 2 || spans[1].EndTime.Sub(spans[1].StartTime) < 50*time.Second {
			t.Errorf("spans: %v", spans)
		}
	})
}

// The metrics are the sum over all watched Clients; without any there is no value.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		one, two := rratelimiter.New(rdb), rratelimiter.New(rdb)
		defer one.Close()
		defer two.Close()
		r.want(t, "")

		stopOne, again, stopTwo := r.Watch(one), r.Watch(one), r.Watch(two)
		wantQueued := func(want string) {
			t.Helper()
			r.want(t, `
				rratelimiter.degraded_clients{} 0
				rratelimiter.queued_requests{} `+want+`
				rratelimiter.unbooked_permits{} 0`)
		}
		wantQueued("0")

		limiter := one.RateLimiter("watched")
		redistest.NoError(t, limiter.SetRate(t.Context(), rratelimiter.Overall, 1, time.Hour))
		redistest.NoError(t, limiter.Acquire(t.Context(), 1))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 3)
		for _, c := range []*rratelimiter.Client{one, one, two} {
			go func() { ended <- c.RateLimiter("watched").Acquire(ctx, 1) }()
		}
		synctest.Wait()
		wantQueued("3")
		stopTwo()
		stopTwo()
		wantQueued("2")
		stopOne()
		stopOne()
		wantQueued("2") // it is watched twice
		cancel()
		for range cap(ended) {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		wantQueued("0")
		again()
		r.want(t, "")
	})
}

// A degraded Client and its unbooked permits are counted.
func TestWatchOfADegradedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, server := newRig(t), redistest.Mini(t)
		c := rratelimiter.New(redistest.MiniClient(t, server),
			rratelimiter.WithFallback(rratelimiter.FallbackLocal), rratelimiter.WithLocalShare(1))
		defer c.Close()
		stop := r.Watch(c)
		defer stop()
		limiter := c.RateLimiter("degraded")
		redistest.NoError(t, limiter.SetRate(t.Context(), rratelimiter.Overall, 100, time.Hour))
		for range 10 { // the first call learns the rate, the second that Redis is away
			_, err := limiter.Allow(t.Context(), 1)
			redistest.NoError(t, err)
			server.SetError("LOADING Redis is loading the dataset in memory")
		}
		r.want(t, `
			rratelimiter.degraded_clients{} 1
			rratelimiter.queued_requests{} 0
			rratelimiter.unbooked_permits{} 9`)
	})
}
