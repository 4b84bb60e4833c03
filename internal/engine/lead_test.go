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

// A lone caller with a budget, a timeout or both asks in its own goroutine.
func TestALoneCallerStartsNoWorker(t *testing.T) {
	for name, wanted := range map[string]Want{
		"timeout": {Permits: 1, Timeout: time.Minute},
		"budget":  {Permits: 1, Budget: time.Second},
		"both":    {Permits: 1, Timeout: time.Minute, Budget: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			led(t, func(e *Engine, l *Limiter) {
				v, err := l.Acquire(context.Background(), wanted)
				if n := e.idleWorkers.Load(); !v.OK || err != nil || n != 0 {
					t.Errorf("%v, %v, %d workers", v, err, n)
				}
			})
		})
	}
}

// After a refusal of its only caller a batch pauses: no worker starts, which would find nothing to do.
func TestARefusedLoneCallerLeavesNoWork(t *testing.T) {
	led(t, func(e *Engine, l *Limiter) {
		ctx := context.Background()
		if _, err := l.Acquire(ctx, Want{Permits: 1}); err != nil {
			t.Fatal(err)
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

// led runs a test in fake time, with an Engine whose go-redis keeps deadlines, and a limiter of 1 permit.
func led(t *testing.T, test func(e *Engine, l *Limiter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t),
			func(o *redis.Options) { o.ContextTimeoutEnabled = true })
		e := newEngine(t, rdb, func(c *Config) { c.GoOnly = true })
		setRate(t, e.limiter("l"), wire.Overall, 1, 10*time.Second)
		time.Sleep(2 * idleFor) // the worker of setRate has ended
		test(e, e.limiter("l"))
	})
}
