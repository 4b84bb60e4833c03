package main

import (
	"context"
	"time"
)

// A contestant is one way to ask for a permit.
type contestant interface {
	name() string

	// prepare warms up and returns how many allocations of Go a call makes,
	// noAllocs if it is not in Go.
	prepare(ctx context.Context, limiter string, pl plan) (allocs float64, err error)

	// calls asks for one permit of a limiter n times, one after the other.
	calls(ctx context.Context, r route, limiter string, n int) (outcome, error)
}

// Which contestant is which, in the order of bench.contestants.
const (
	floor = iota // a script that does nothing
	bare         // our script without our Go code
	ours
	javas
)

const noAllocs = -1

// outcome is how n calls went.
type outcome struct {
	granted  int // anyGrants: it does not limit
	p50, p99 time.Duration
}

const anyGrants = -1
