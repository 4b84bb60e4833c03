package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
)

// A contestant is one way to ask for a permit, by a lone caller.
type contestant interface {
	name() string

	// prepare warms up. It returns how many Go allocations a call makes, and
	// noAllocs if it is not in Go.
	prepare(ctx context.Context, limiter string, pl costPlan) (allocs float64, err error)

	// calls asks for one permit n times, one call after the other.
	calls(ctx context.Context, r route, limiter string, n int) (outcome, error)
}

// The places of the contestants in costing.contestants.
const (
	costFloor = iota // a script that does nothing
	costBare         // our script without our Go code
	costOurs
	costJava
)

// An outcome is how n calls went.
type outcome struct {
	granted int // anyGrants: it does not limit
	spread
}

// anyGrants stands for grants where nothing is limited.
const anyGrants = -1

// A caller is a contestant in Go.
type caller struct {
	label  string
	limits bool
	via    [2]func(limiter string) ask // by route
}

// newCaller makes one of a maker, which is called for each route.
func newCaller(label string, limits bool, rdbs [2]*redis.Client, made func(*redis.Client) maker) *caller {
	c := &caller{label: label, limits: limits}
	for r, rdb := range rdbs {
		c.via[r] = made(rdb).one
	}
	return c
}

// name returns its name in the table.
func (c *caller) name() string { return c.label }

// prepare makes a batch of calls and counts the allocations of another one.
func (c *caller) prepare(ctx context.Context, limiter string, pl costPlan) (allocs float64, err error) {
	if _, err := c.calls(ctx, direct, limiter, pl.batch); err != nil {
		return 0, err
	}
	return allocsOf(ctx, c.via[direct](limiter), pl.batch)
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
	return outcome{granted, spreadOf(took)}, nil
}

// A javaLoop is Redisson's own code, in a tight loop on one thread of its JVM.
// Each batch has a thread of its own. Where a batch is one call (state.cold),
// the start of that thread is part of the call's latency.
type javaLoop struct{ peer *javapeer.Peer }

// javaRoutes are the names of its Redisson instances, by route.
var javaRoutes = [...]string{direct: "direct", proxied: "proxied"}

// newJavaLoop connects an instance for each route.
func newJavaLoop(ctx context.Context, peer *javapeer.Peer, addrs [2]string) (javaLoop, error) {
	for r, addr := range addrs {
		if _, err := peer.Connect(ctx, javaRoutes[r], addr); err != nil {
			return javaLoop{}, err
		}
	}
	return javaLoop{peer}, nil
}

// name returns its name in the table, with the version.
func (j javaLoop) name() string { return "Redisson " + j.peer.Version() }

// prepare lets the JVM compile the code of the limiter.
func (j javaLoop) prepare(ctx context.Context, limiter string, pl costPlan) (allocs float64, err error) {
	_, err = j.peer.Limiter(javaRoutes[direct], limiter).Loop(ctx, javapeer.LoopOptions{Duration: pl.warmup})
	return noAllocs, err
}

// calls makes a batch of the loop.
func (j javaLoop) calls(ctx context.Context, r route, limiter string, n int) (outcome, error) {
	got, err := j.peer.Limiter(javaRoutes[r], limiter).Loop(ctx, javapeer.LoopOptions{Count: int64(n)})
	return outcome{int(got.Granted), spread{microseconds(got.P50us), microseconds(got.P99us)}}, err
}

// microseconds returns µs as a duration.
func microseconds(us float64) time.Duration { return time.Duration(us * float64(time.Microsecond)) }
