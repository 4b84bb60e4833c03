package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// An idleResult is what a Client keeps of limiters that nobody uses any more.
type idleResult struct {
	names         int
	before, after float64 // MB of heap
}

// measureIdle touches one limiter after the other, each through a RateLimiter
// of its own that nobody keeps. Redis is given a portion of them at a time.
func measureIdle(ctx context.Context, s *scope, pl plan) (*idleResult, error) {
	server := redistest.Start(s)
	admin := server.Admin()
	c := s.client(server.Client(s, patient))
	const portion = 10_000
	warm := min(portion, pl.names)
	if err := touch(ctx, admin, c, "warm", warm); err != nil { // the connections, and what is made once
		return nil, err
	}
	r := &idleResult{names: pl.names, before: heap()}
	for done := 0; done < pl.names; done += portion {
		if err := touch(ctx, admin, c, text(int64(done)), min(portion, pl.names-done)); err != nil {
			return nil, err
		}
	}
	r.after = heap()
	runtime.KeepAlive(c)
	return r, nil
}

// touch makes limiters, takes a permit of each and deletes them.
func touch(ctx context.Context, admin *redis.Client, c *rratelimiter.Client, prefix string, n int) error {
	pipe := admin.Pipeline()
	for i := range n {
		pipe.HSet(ctx, fmt.Sprint(prefix, ":", i), "rate", 1, "interval", 60_000, "type", 0)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	var (
		next atomic.Int64
		all  sync.WaitGroup
		errs [64]error
	)
	for caller := range errs {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && errs[caller] == nil; i = next.Add(1) - 1 {
				errs[caller] = take(ctx, c.RateLimiter(fmt.Sprint(prefix, ":", i)), 1)
			}
		})
	}
	all.Wait()
	return errors.Join(errors.Join(errs[:]...), admin.FlushDBAsync(ctx).Err())
}

// heap returns the MB that are in use after all that can be freed was.
func heap() float64 {
	var m runtime.MemStats
	for range 2 { // what a pool keeps outlives one
		runtime.GC() //revive:disable-line:call-to-gc this is what is measured
	}
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1e6
}
