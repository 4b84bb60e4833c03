package rlock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// Ten thousand holds are renewed in time with two connections and replies that are 300 ms late: a round is
// one round trip.
func TestRenewalsShareATrip(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		const locks, connections, lease = 10_000, 2, 6 * time.Second
		client, name := s.client(rlock.WithWatchdogTimeout(lease)), redistest.Name(s)
		holds := make([]*rlock.Hold, locks)
		for i := range holds {
			holds[i] = must(client.Lock(fmt.Sprint(name, i)).Lock(s.Context()))(s)
		}
		s.rdb.AddHook(slow{make(chan struct{}, connections), 300 * time.Millisecond})
		time.Sleep(3 * lease)
		for _, h := range holds {
			noError(s, h.Err())
		}
		want(s, "locks", must(s.look.DBSize(s.Context()).Result())(s), locks)
	})
}

// A slow lets through a few requests at a time, whose replies are late.
type slow struct {
	pool chan struct{}
	late time.Duration
}

// DialHook is that of a redis.Hook.
func (slow) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook is that of a redis.Hook.
func (sl slow) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		sl.pool <- struct{}{}
		defer func() { <-sl.pool }()
		defer time.Sleep(sl.late)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook is that of a redis.Hook.
func (sl slow) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		sl.pool <- struct{}{}
		defer func() { <-sl.pool }()
		defer time.Sleep(sl.late)
		return next(ctx, cmds)
	}
}
