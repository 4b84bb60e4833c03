package faults

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// OfNetwork are faults of what lies between the callers and a server.
var OfNetwork = []Fault{
	{Name: "replies are late", Break: func(ctx context.Context, r *Round) error {
		r.Proxy.Delay(broken)
		wait(ctx, broken)
		r.Proxy.Delay(0)
		return nil
	}},
	{Name: "connections are cut", Break: func(ctx context.Context, r *Round) error {
		return often(ctx, 10, func() error { r.Proxy.Cut(); return nil })
	}},
	{Name: "connections are cut within a reply", Break: func(ctx context.Context, r *Round) error {
		return often(ctx, 10, func() error { r.Proxy.TearReply(2); return nil })
	}},
	{Name: "replies are swallowed", Break: func(ctx context.Context, r *Round) error {
		return often(ctx, 10, func() error { r.Proxy.SwallowReply(2); return nil })
	}},
	{Name: "packets vanish", Break: func(ctx context.Context, r *Round) error {
		appear := r.Proxy.Vanish()
		wait(ctx, 2*broken)
		appear()
		return nil
	}},
	{Name: "nothing listens", Break: func(ctx context.Context, r *Round) error {
		r.Proxy.Down()
		r.Proxy.Cut()
		wait(ctx, broken)
		r.Proxy.Up()
		return nil
	}},
	{Name: "all connections of a pool are taken", Setup: Setup{Pool: 2}, Break: fillPools},
	{Name: "a pool of one connection, which is cut", Setup: Setup{Pool: 1},
		Break: func(ctx context.Context, r *Round) error {
			return often(ctx, 10, func() error { r.Proxy.Cut(); return nil })
		}},
	{Name: "a pool of one connection, and late replies", Setup: Setup{Pool: 1},
		Break: func(ctx context.Context, r *Round) error {
			r.Proxy.Delay(broken / 2)
			wait(ctx, broken)
			r.Proxy.Delay(0)
			return nil
		}},
	{Name: "clocks of Clients are an hour apart",
		Setup:     Setup{Clocks: []time.Duration{0, time.Hour, -time.Hour}},
		Unlimited: "clocks that differ make a limit wrong by as much",
		Break:     func(ctx context.Context, _ *Round) error { wait(ctx, broken); return nil }},
}

// OfLeases are faults around Clients that take leases. Java has none, and would use up what they need.
var OfLeases = leased("replies are late", "connections are cut", "connections are cut within a reply",
	"replies are swallowed", "packets vanish", "nothing listens")

// leased returns faults of the network by their names, for Clients that take leases.
func leased(names ...string) (faults []Fault) {
	for _, f := range OfNetwork {
		if slices.Contains(names, f.Name) {
			f.Setup = Setup{Alone: true, Leased: true}
			faults = append(faults, f)
		}
	}
	return faults
}

// fillPools takes all connections of the go-redis clients, as a program does that
// uses them for something slow.
func fillPools(ctx context.Context, r *Round) error {
	var all sync.WaitGroup
	errs := make(chan error, goClients*r.setup.Pool)
	for _, rdb := range r.golang.rdbs {
		for range r.setup.Pool {
			all.Go(func() {
				err := rdb.BLPop(ctx, time.Second, "{"+r.Name+"}:none").Err()
				if errors.Is(err, redis.Nil) || errors.Is(err, redis.ErrPoolTimeout) {
					err = nil
				}
				errs <- err
			})
		}
	}
	all.Wait()
	close(errs)
	var err error
	for e := range errs {
		err = errors.Join(err, e)
	}
	return err
}
