package main

import (
	"context"
	"time"
)

// A turn is what a call takes a lone caller of the floor, of ours and of ours
// with a Client for each caller when the three ask in turns, call by call.
// Whether the machine sleeps or spins while it waits for a reply makes a call
// several times as long, and it decides anew with each batch; in turns it
// decides for all.
type turn struct{ p50, p99 [alone + 1]float64 } // µs

func (a *arena) turn(ctx context.Context) (t turn, err error) {
	name, remove, err := a.limiter(ctx)
	if err != nil {
		return t, err
	}
	defer remove()
	var asks [len(t.p50)]ask
	var took [len(t.p50)][]time.Duration
	for who := range asks {
		asks[who] = a.makers[who](name, 1)[0]
	}
	for i := range a.plan.turns {
		for j := range asks {
			who := (i + j) % len(asks)
			start := time.Now()
			if _, err := asks[who](ctx); err != nil {
				return t, err
			}
			took[who] = append(took[who], time.Since(start))
		}
	}
	for who := range asks {
		t.p50[who] = micros(quantile(took[who], 0.50))
		t.p99[who] = micros(quantile(took[who], 0.99))
	}
	return t, nil
}
