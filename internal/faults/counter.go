package faults

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/grants"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A counter measures a Loss: it counts in Redis, beside the limiter. Redis keeps or
// forgets writes in their order. So if it has a step, it has all grants before that
// step.
type counter struct {
	key     string
	stopped chan struct{}
	stop    context.CancelFunc
	starts  []time.Time // of each step; read after stopped
}

// count starts a counter on the server that has the limiter.
func (r *Round) count(ctx context.Context, server *redistest.Server) *counter {
	ctx, cancel := context.WithCancel(ctx)
	c := &counter{key: "{" + r.Name + "}:count", stopped: make(chan struct{}), stop: cancel}
	r.look.Del(ctx, c.key)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
	go func() {
		defer close(c.stopped)
		defer rdb.Close()
		for ctx.Err() == nil {
			c.starts = append(c.starts, time.Now())
			if rdb.Incr(ctx, c.key).Err() != nil {
				return
			}
			wait(ctx, time.Millisecond)
		}
	}()
	return c
}

// lost notes what Redis has forgotten between since and end, when the counter is
// found again: all, if it has no counter any more.
func (c *counter) lost(ctx context.Context, r *Round, since, end time.Time) error {
	c.stop()
	<-c.stopped
	var steps int
	if err := until(ctx, func() (err error) {
		if cluster, ok := r.look.(*redis.ClusterClient); ok {
			cluster.ReloadState(ctx) // it would ask a dead node for a minute
		}
		if steps, err = r.look.Get(ctx, c.key).Int(); err == redis.Nil {
			err = nil
		}
		return err
	}); err != nil {
		return fmt.Errorf("the counter: %w", err)
	}
	loss := grants.Loss{To: end, Since: since, Why: "Redis forgot everything"}
	if steps > 0 {
		loss.From = c.starts[min(steps, len(c.starts))-1]
		loss.Why = fmt.Sprintf("Redis forgot %d of %d steps, less than %v", max(0, len(c.starts)-1-steps),
			len(c.starts), since.Sub(loss.From).Round(time.Millisecond))
	}
	if loss.From.Before(since) {
		r.Log.Lose(loss)
	}
	return nil
}
