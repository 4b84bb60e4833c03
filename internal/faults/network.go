package faults

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// OfNetwork are faults of the network between the callers and a server, and of connection pools.
var OfNetwork = []Fault{
	{Name: "replies are late", Break: func(r *Round) { r.late(broken) }},
	{Name: "connections are cut", Break: cut},
	{Name: "connections are cut within a reply", Break: func(r *Round) {
		r.often(10, func() error { r.Proxy.TearReply(2); return nil })
	}},
	{Name: "replies are swallowed", Break: func(r *Round) {
		r.often(10, func() error { r.Proxy.SwallowReply(2); return nil })
	}},
	{Name: "packets vanish", Break: func(r *Round) {
		appear := r.Proxy.Vanish()
		r.wait(2 * broken)
		appear()
	}},
	{Name: "nothing listens", Break: func(r *Round) {
		r.Proxy.Down()
		r.Proxy.Cut()
		r.wait(broken)
		r.Proxy.Up()
	}},
	{Name: "all connections of a pool are taken", Setup: Setup{Pool: 2}, Break: fillPools},
	{Name: "a pool of one connection, which is cut", Setup: Setup{Pool: 1}, Break: cut},
	{Name: "a pool of one connection, and late replies", Setup: Setup{Pool: 1},
		Break: func(r *Round) { r.late(broken / 2) }},
}

// OfLeases are faults of the network around Clients that take leases. Java takes none, and would use up the
// permits that they need.
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

func (r *Round) late(d time.Duration) {
	r.Proxy.Delay(d)
	r.wait(broken)
	r.Proxy.Delay(0)
}

func cut(r *Round) { r.often(10, func() error { r.Proxy.Cut(); return nil }) }

// fillPools takes all connections of the go-redis clients, like a program that uses them
// for slow commands.
func fillPools(r *Round) {
	var all sync.WaitGroup
	for _, rdb := range r.golang.rdbs {
		for range r.setup.Pool {
			all.Go(func() {
				err := rdb.BLPop(r.ctx, time.Second, "{"+r.Name+"}:none").Err()
				if err != nil && !errors.Is(err, redis.Nil) && !errors.Is(err, redis.ErrPoolTimeout) {
					r.t.Errorf("a command that blocks: %v", err)
				}
			})
		}
	}
	all.Wait()
}
