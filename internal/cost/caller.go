package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// ask asks for one permit.
type ask func(ctx context.Context) (bool, error)

// caller is a contestant in Go.
type caller struct {
	label  string
	limits bool
	via    [2]func(limiter string) ask // by route
}

func (c *caller) name() string { return c.label }

func (c *caller) prepare(ctx context.Context, limiter string, pl plan) (allocs float64, err error) {
	if _, err := c.calls(ctx, direct, limiter, pl.batch); err != nil {
		return 0, err
	}
	once := c.via[direct](limiter)
	allocs = testing.AllocsPerRun(pl.batch, func() {
		if _, e := once(ctx); e != nil {
			err = e
		}
	})
	return allocs, err
}

// calls reads the clock once per call, as the Java peer does: the end of a call
// is the start of the next.
func (c *caller) calls(ctx context.Context, r route, limiter string, n int) (outcome, error) {
	once := c.via[r](limiter)
	took := make([]time.Duration, n)
	granted := 0
	now := time.Now()
	for i := range took {
		ok, err := once(ctx)
		if err != nil {
			return outcome{}, fmt.Errorf("%s: %w", c.label, err)
		}
		if ok {
			granted++
		}
		before := now
		now = time.Now()
		took[i] = now.Sub(before)
	}
	if !c.limits {
		granted = anyGrants
	}
	return outcome{granted, quantile(took, 0.50), quantile(took, 0.99)}, nil
}

// newOurs is this library.
func newOurs(b *bench, rdbs [2]*redis.Client) *caller {
	c := &caller{label: "rratelimiter", limits: true}
	for r, rdb := range rdbs {
		client := b.client(rdb)
		c.via[r] = func(limiter string) ask {
			l := client.RateLimiter(limiter)
			return func(ctx context.Context) (bool, error) { return l.TryAcquire(ctx, 1, 0) }
		}
	}
	return c
}

// newFloor is the least that any limiter with a script can cost: one that does
// nothing, sent by go-redis itself.
func newFloor(rdbs [2]*redis.Client) *caller {
	nothing := redis.NewScript("return 1")
	c := &caller{label: "floor"}
	for r, rdb := range rdbs {
		c.via[r] = func(limiter string) ask {
			keys := []string{limiter}
			return func(ctx context.Context) (bool, error) { return nothing.Run(ctx, rdb, keys).Bool() }
		}
	}
	return c
}
