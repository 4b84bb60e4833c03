package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// After a refusal of its only caller a batch pauses: no worker starts, which would find nothing to do.
func TestARefusedLoneCallerLeavesNoWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t),
			func(o *redis.Options) { o.ContextTimeoutEnabled = true }) // go-redis keeps deadlines
		e, ctx := newEngine(t, rdb, func(c *Config) { c.GoOnly = true }), context.Background()
		l := e.limiter("l")
		setRate(t, l, wire.Overall, 1, 10*time.Second)
		time.Sleep(2 * idleFor) // the worker of setRate has ended
		_, err := l.Acquire(ctx, Want{Permits: 1, Timeout: time.Minute, Budget: time.Second})
		if n := e.idleWorkers.Load(); err != nil || n != 0 {
			t.Fatalf("%v, %d workers after a lone caller", err, n)
		}
		q, w := e.queues.enter(l), e.queues.newWaiter(ctx, Want{Permits: 1, Timeout: time.Minute})
		w.staysForReply = true
		req := q.arrive(w)
		if q.batch.send(requestContext{ctx, ctx, q}, req) {
			t.Error("the batch goes on")
		}
		if v, err := w.await(ctx, q); !v.OK || err != nil {
			t.Errorf("%v, %v", v, err)
		}
	})
}
