package main

import (
	"context"
	"math"
	"time"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
)

// javaClient is the Redisson instance of the part callers. All threads share
// it, with its default pools. Only its timeout for a reply is longer, so that
// thousands of threads do not make it give up.
const javaClient = "bench"

// warmJVM lets the JVM compile the code of the limiter.
func (a *arena) warmJVM(ctx context.Context, threads int) error {
	name, remove, err := a.limiter(ctx)
	if err != nil {
		return err
	}
	defer remove()
	// 4 s: from then on the figures of a JVM do not improve any more.
	lasts := amount(a.scope, 4*time.Second, 50*time.Millisecond)
	o := javapeer.LoopOptions{Threads: threads, Duration: lasts}
	_, err = a.peer.Limiter(javaClient, name).Loop(ctx, o)
	return err
}

// javaBatch measures Redisson in a loop inside the JVM. The work of Redis
// during the warm-up cannot be told apart, so all of it is divided by all
// script calls: Redisson makes one per acquire.
func (a *arena) javaBatch(ctx context.Context, name string, threads int) (sample, error) {
	usageBefore, err := readUsage(ctx, a.admin)
	if err != nil {
		return sample{}, err
	}
	before, measured := a.scope.spans()
	got, err := a.peer.Limiter(javaClient, name).Loop(ctx, javapeer.LoopOptions{
		// Longer than for Go: starting thousands of threads takes a while.
		Threads: threads, Warmup: 5 * before / 2, Duration: measured,
	})
	if err != nil {
		return sample{}, err
	}
	after, err := readUsage(ctx, a.admin)
	used := after.since(usageBefore)
	n := math.Max(1, used.scripts().calls)
	return sample{
		perSecond: got.PerSecond, p50: got.P50us, p99: got.P99us, p999: got.P999us,
		cpu: used.cpu * 1e6 / n, script: used.scripts().usec / n, calls: 1, allocs: noAllocs,
	}, err
}
