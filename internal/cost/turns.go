package main

import (
	"context"
	"time"
)

// A turn is what a call takes a lone caller of the floor and of ours when the
// two ask in turns, call by call. Whether the machine sleeps or spins while it
// waits for a reply makes a call several times as long, and it decides anew
// with each batch; in turns it decides for both.
type turn struct{ floor, ours float64 } // p50 in µs

func (t turn) ratio() float64 { return t.ours / t.floor }

// takeTurns measures a turn in each state; cold makes no difference here.
func (b *bench) takeTurns(ctx context.Context, r *report) (err error) {
	for _, row := range r.results {
		err = b.withLimiter(ctx, err, &row[ours], func(limiter string) error {
			t, err := b.turn(ctx, limiter)
			r.turns[row[0].state.name] = append(r.turns[row[0].state.name], t)
			return err
		})
	}
	return err
}

func (b *bench) turn(ctx context.Context, limiter string) (turn, error) {
	var asks [2]ask
	var took [2][]time.Duration
	for i, who := range []int{floor, ours} {
		asks[i] = b.contestants[who].(*caller).via[direct](limiter)
	}
	for i := range 2 * b.batch {
		start := time.Now()
		if _, err := asks[i%2](ctx); err != nil {
			return turn{}, err
		}
		took[i%2] = append(took[i%2], time.Since(start))
	}
	return turn{micros(quantile(took[0], 0.50)), micros(quantile(took[1], 0.50))}, nil
}
