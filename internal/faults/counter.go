package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/grants"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// counted increments a counter beside the limiter, for a while and then until lost is called. Redis keeps or
// forgets writes in their order: if it has a step, it has all grants before that step. lost waits until the
// counter can be read, and notes what Redis has forgotten by end: everything, if there is no counter.
func (r *Round) counted() (lost func(end time.Time)) {
	server, key := r.master(), "{"+r.Name+"}:count"
	r.must(r.look.Del(r.ctx, key).Err())
	ctx, stop := context.WithCancel(r.ctx)
	ended, starts := make(chan struct{}), []time.Time{} // of each step; read after ended
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
	go func() {
		defer close(ended)
		defer rdb.Close()
		for ctx.Err() == nil {
			starts = append(starts, time.Now())
			if rdb.Incr(ctx, key).Err() != nil {
				return
			}
			wait(ctx, time.Millisecond)
		}
	}()
	r.wait(broken / 4)
	since := time.Now()
	return func(end time.Time) {
		stop()
		<-ended
		var steps int
		redistest.Until(r.t, "the counter", func() (err error) {
			if cluster, ok := r.look.(*redis.ClusterClient); ok {
				cluster.ReloadState(r.ctx) // it would ask a dead node for a minute
			}
			if steps, err = r.look.Get(r.ctx, key).Int(); errors.Is(err, redis.Nil) {
				err = nil
			}
			return err
		})
		loss := grants.Loss{To: end, Since: since, Why: "Redis forgot everything"}
		if steps > 0 {
			loss.From = starts[min(steps, len(starts))-1]
			loss.Why = fmt.Sprintf("Redis forgot %d of %d steps, less than %v", max(0, len(starts)-1-steps),
				len(starts), since.Sub(loss.From).Round(time.Millisecond))
		}
		if loss.From.Before(since) {
			r.Log.Lose(loss)
		}
	}
}

// lose notes that Redis has forgotten all that was granted before.
func (r *Round) lose(since, until time.Time, why string) {
	r.Log.Lose(grants.Loss{Since: since, To: until, Why: why})
}
