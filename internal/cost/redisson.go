package main

import (
	"context"
	"time"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
)

// redisson is Redisson's own code, in a tight loop on one thread of its JVM.
// Each batch has a thread of its own, which is part of what a call costs that
// is a batch by itself (state.cold).
type redisson struct{ peer *javapeer.Peer }

// redissons are the names of its instances, by route.
var redissons = [...]string{direct: "direct", proxied: "proxied"}

func newRedisson(ctx context.Context, peer *javapeer.Peer, addrs [2]string) (redisson, error) {
	for r, addr := range addrs {
		if _, err := peer.Connect(ctx, redissons[r], addr); err != nil {
			return redisson{}, err
		}
	}
	return redisson{peer}, nil
}

func (j redisson) name() string { return "Redisson " + j.peer.Version() }

// prepare lets the JVM compile what a limiter makes it run.
func (j redisson) prepare(ctx context.Context, limiter string, pl plan) (allocs float64, err error) {
	_, err = j.peer.Limiter(redissons[direct], limiter).Loop(ctx, javapeer.LoopOptions{Duration: pl.warmup})
	return noAllocs, err
}

func (j redisson) calls(ctx context.Context, r route, limiter string, n int) (outcome, error) {
	got, err := j.peer.Limiter(redissons[r], limiter).Loop(ctx, javapeer.LoopOptions{Count: int64(n)})
	return outcome{int(got.Granted), microseconds(got.P50us), microseconds(got.P99us)}, err
}

func microseconds(us float64) time.Duration { return time.Duration(us * float64(time.Microsecond)) }
