package otellimit_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// The state of the Clients that are watched is measured, all of them together; of none
// there is none.
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
		noError(t, limiter.SetRate(t.Context(), rratelimiter.Overall, 1, time.Hour))
		noError(t, limiter.Acquire(t.Context(), 1))
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

// An outage is a hook of go-redis: while it is on, every request fails as a broken
// connection does.
type outage struct{ on atomic.Bool }

func (o *outage) DialHook(next redis.DialHook) redis.DialHook { return next }

func (o *outage) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if o.on.Load() {
			cmd.SetErr(io.EOF)
			return io.EOF
		}
		return next(ctx, cmd)
	}
}

func (o *outage) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A Client that does without its Redis is counted, and so is what it owes.
func TestWatchOfADegradedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, away := newRig(t), &outage{}
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		rdb.AddHook(away)
		c := rratelimiter.New(rdb,
			rratelimiter.WithFallback(rratelimiter.FallbackLocal), rratelimiter.WithLocalShare(1))
		defer c.Close()
		stop := r.Watch(c)
		defer stop()
		limiter := c.RateLimiter("degraded")
		noError(t, limiter.SetRate(t.Context(), rratelimiter.Overall, 100, time.Hour))
		for range 10 { // it learns the rate, and then that Redis is away
			_, err := limiter.Allow(t.Context(), 1)
			noError(t, err)
			away.on.Store(true)
		}
		r.want(t, `
			rratelimiter.degraded_clients{} 1
			rratelimiter.queued_requests{} 0
			rratelimiter.unbooked_permits{} 9`)
	})
}
