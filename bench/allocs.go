package main

import (
	"context"
	"testing"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// allocsPart shows what the library itself adds to a call of go-redis. Garbage
// is paid for by the whole service, in places where no limiter is to be seen.
var allocsPart = &part{
	name: "allocs", set: setPage, measure: measureAllocs,
	about: "Go allocations of an uncontended call, beside a script that does nothing",
}

// An allocsData is how many Go allocations one call makes when no other call is
// under way: a script that does nothing, and a granted TryAcquire.
type allocsData struct{ Floor, Ours float64 }

// measureAllocs counts them. The setter is another Client, so that the measured
// one has only made calls like those that are counted.
func measureAllocs(ctx context.Context, s *scope) (finding, error) {
	server := redistest.Start(s)
	rdb, name := server.Client(s), redistest.Name(s)
	setter := s.client(server.Admin()).RateLimiter(name)
	if _, err := setter.TrySetRate(ctx, rratelimiter.Overall, plenty, interval); err != nil {
		return finding{}, err
	}
	d := new(allocsData)
	for once, to := range map[*ask]*float64{
		new(newFloor(rdb).one(name)):   &d.Floor,
		new(newOurs(s, rdb).one(name)): &d.Ours,
	} {
		var err error
		// 2000 calls: what is made once, a connection say, becomes less than one.
		*to, err = allocsOf(ctx, *once, amount(s, 2000, 20))
		if err != nil {
			return finding{}, err
		}
	}
	const what = "allocations per uncontended TryAcquire; three more than Script.Run"
	return finding{d, []target{most("T7", what, d.Ours, d.Floor+3, "")}}, nil
}

// allocsOf returns the Go allocations of one call, the mean of so many.
func allocsOf(ctx context.Context, once ask, calls int) (allocs float64, err error) {
	allocs = testing.AllocsPerRun(calls, func() {
		if _, e := once(ctx); e != nil {
			err = e
		}
	})
	return allocs, err
}
