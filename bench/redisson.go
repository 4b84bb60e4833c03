package main

import (
	"context"
	"math"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
)

// javaClient is the Redisson instance of the Java peer. All its threads share
// it, with the pools it has by default; only its time limit for a reply is
// longer, so that thousands of threads do not make it give up.
const javaClient = "bench"

// warmJVM lets the JVM compile what the limiter makes it run.
func (a *arena) warmJVM(ctx context.Context, threads int) error {
	name, remove, err := a.limiter(ctx)
	if err != nil {
		return err
	}
	defer remove()
	_, err = a.peer.Limiter(javaClient, name).Loop(ctx, javapeer.LoopOptions{Threads: threads, Duration: a.plan.jvm})
	return err
}

// javaBatch measures Redisson in its own loop. What Redis did in its warm-up is
// in what Redis did, so that is divided by all of its script calls; Redisson
// makes one for each acquire.
func (a *arena) javaBatch(ctx context.Context, name string, threads int) (sample, error) {
	before, err := readUsage(ctx, a.admin)
	if err != nil {
		return sample{}, err
	}
	got, err := a.peer.Limiter(javaClient, name).Loop(ctx, javapeer.LoopOptions{
		Threads: threads, Warmup: 5 * a.plan.warmup / 2, Duration: a.plan.span,
	})
	if err != nil {
		return sample{}, err
	}
	after, err := readUsage(ctx, a.admin)
	used := after.since(before)
	n := math.Max(1, used.scripts)
	return sample{
		perSecond: got.PerSecond, p50: got.P50us, p99: got.P99us, p999: got.P999us,
		cpu: used.cpu * 1e6 / n, script: used.usec / n, calls: 1, allocs: noAllocs,
	}, err
}
