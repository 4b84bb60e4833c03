package main

import (
	"context"
	"testing"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// An allocsResult is how many allocations of Go a call makes that nobody else
// is beside: a script that does nothing, and a granted TryAcquire.
type allocsResult struct{ floor, ours float64 }

func measureAllocs(ctx context.Context, s *scope, pl plan) (*allocsResult, error) {
	server := redistest.Start(s)
	rdb, name := server.Client(s), redistest.Name(s)
	setter := s.client(server.Admin()).RateLimiter(name)
	if _, err := setter.TrySetRate(ctx, rratelimiter.Overall, plenty, interval); err != nil {
		return nil, err
	}
	var r allocsResult
	for once, to := range map[*ask]*float64{
		new(newFloor(rdb)(name, 1)[0]):   &r.floor,
		new(newOurs(s, rdb)(name, 1)[0]): &r.ours,
	} {
		var err error
		*to = testing.AllocsPerRun(pl.allocs, func() {
			if _, e := (*once)(ctx); e != nil {
				err = e
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return &r, nil
}
