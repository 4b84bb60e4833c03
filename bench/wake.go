package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A wakeResult is how long after a Release elsewhere a waiter had its permit.
type wakeResult struct{ p50, p99 float64 } // ms

// measureWake has one Client wait for the permit that another one gives back,
// on a limiter whose permits come back by themselves after an hour.
func measureWake(ctx context.Context, s *scope, pl plan) (*wakeResult, error) {
	server := redistest.Start(s)
	name := redistest.Name(s)
	waiter := s.client(server.Client(s)).RateLimiter(name)
	releaser := s.client(server.Client(s)).RateLimiter(name)
	if _, err := releaser.TrySetRate(ctx, rratelimiter.Overall, 1, time.Hour); err != nil {
		return nil, err
	}
	if err := take(ctx, releaser, 1); err != nil {
		return nil, err
	}
	took := make([]time.Duration, pl.wakes)
	for i := range took {
		served := make(chan error, 1)
		go func() { served <- waiter.Acquire(ctx, 1) }()
		if err := listens(ctx, server.Admin(), name); err != nil {
			return nil, err
		}
		start := time.Now()
		if err := releaser.Release(ctx, 1); err != nil {
			return nil, err
		}
		if err := <-served; err != nil {
			return nil, err
		}
		took[i] = time.Since(start)
	}
	return &wakeResult{millis(quantile(took, 0.50)), millis(quantile(took, 0.99))}, nil
}

// listens waits until somebody in line listens for changes of a limiter, and
// has had the time to look once more after that.
func listens(ctx context.Context, admin *redis.Client, name string) error {
	channel := "{" + name + "}:changed"
	for {
		n, err := admin.PubSubNumSub(ctx, channel).Result()
		if err != nil {
			return err
		}
		time.Sleep(3 * time.Millisecond)
		if n[channel] > 0 {
			return nil
		}
	}
}
