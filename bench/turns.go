package main

import (
	"context"
	"time"
)

// A spread is what most calls took, and what the slowest of a hundred took.
type spread struct{ p50, p99 time.Duration }

// spreadOf returns the spread of all calls.
func spreadOf(took []time.Duration) spread { return spread{quantile(took, 0.50), quantile(took, 0.99)} }

// inTurns lets each of asks ask so many times, in turns, call by call. An idle
// machine takes a while to wake up, which makes a call several times as long,
// and decides anew for each batch how deep it sleeps. In turns it decides once
// for all of them.
func inTurns(ctx context.Context, asks []ask, times int) ([]spread, error) {
	took := make([][]time.Duration, len(asks))
	for i := range times {
		for j := range asks {
			who := j
			// None always follows the same one. Two alternate: begun in turns, each
			// would follow itself.
			if len(asks) > 2 {
				who = (i + j) % len(asks)
			}
			start := time.Now()
			if _, err := asks[who](ctx); err != nil {
				return nil, err
			}
			took[who] = append(took[who], time.Since(start))
		}
	}
	spreads := make([]spread, len(asks))
	for who := range asks {
		spreads[who] = spreadOf(took[who])
	}
	return spreads, nil
}
