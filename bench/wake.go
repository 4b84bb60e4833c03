package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// wakePart shows that a permit which is given back does not lie idle: a message
// wakes the head of the line, in whichever process it is.
var wakePart = &part{
	name: "wake", set: setPage, measure: measureWake,
	about: "how soon a waiter has its permit after a Release by another client",
}

// A wakeData is how long after a Release elsewhere a waiter had its permit, in
// ms.
type wakeData struct {
	Wakes    int
	P50, P99 float64
}

// measureWake lets one Client wait for the permit that another one releases.
// By itself the permit comes back only after an hour.
func measureWake(ctx context.Context, s *scope) (finding, error) {
	server := redistest.Start(s)
	name := redistest.Name(s)
	waiter := s.client(server.Client(s)).RateLimiter(name)
	releaser := s.client(server.Client(s)).RateLimiter(name)
	if _, err := releaser.TrySetRate(ctx, rratelimiter.Overall, 1, time.Hour); err != nil {
		return finding{}, err
	}
	if err := take(ctx, releaser, 1); err != nil {
		return finding{}, err
	}
	// A released permit goes to the waiter, so the limiter is empty again for the
	// next round.
	took := make([]time.Duration, amount(s, 300, 3)) // 300: three beyond the p99
	for i := range took {
		// The buffer lets the waiter end when this function returns early.
		served := make(chan error, 1)
		go func() { served <- waiter.Acquire(ctx, 1) }()
		if err := listens(ctx, server.Admin(), name); err != nil {
			return finding{}, err
		}
		start := time.Now()
		if err := releaser.Release(ctx, 1); err != nil {
			return finding{}, err
		}
		if err := <-served; err != nil {
			return finding{}, err
		}
		took[i] = time.Since(start)
	}
	all := spreadOf(took)
	d := &wakeData{len(took), millis(all.p50), millis(all.p99)}
	return finding{d, []target{most("T6", "a Release elsewhere wakes a waiter, p99", d.P99, 5, " ms")}}, nil
}

// listens returns when a waiter is subscribed to the changes of a limiter, and
// has had the time for its last look after that. A release before that look
// would be found by the look, and not by the message that is measured.
func listens(ctx context.Context, admin *redis.Client, name string) error {
	channel := keysOf(name, "").changed
	for {
		n, err := admin.PubSubNumSub(ctx, channel).Result()
		if err != nil {
			return err
		}
		time.Sleep(3 * time.Millisecond) // many round trips
		if n[channel] > 0 {
			return nil
		}
	}
}
