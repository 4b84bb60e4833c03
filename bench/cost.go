package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// costPart explains the figures of a lone caller: what of a call is the script,
// what the network, and what our Go code. It is not on the page: its figures are
// for changes of a script.
var costPart = &part{
	name: "cost", set: setCost, measure: measureCost,
	about: "one acquire of a lone caller: round trips, bytes, µs and commands in Redis, beside Redisson",
}

// A costPlan says how much the part cost measures.
type costPlan struct {
	rounds int           // in each, every contestant has a batch in every state
	budget time.Duration // no round but the first begins after it
	batch  int           // calls of a batch
	cold   int           // calls of a batch with noise before each call
	wire   int           // calls of a batch whose bytes are counted
	warmup time.Duration // of the JVM, in each state
}

// The two plans. A test only wants to see that everything works.
var (
	// costFull gives figures that differ little from run to run. 400 calls have
	// a p99; noise takes several ms per call, so a cold batch has few calls.
	costFull = costPlan{
		rounds: 21, budget: 50 * time.Second, batch: 400, cold: 20, wire: 40, warmup: 1500 * time.Millisecond,
	}
	costBrief = costPlan{
		rounds: 2, budget: time.Minute, batch: 10, cold: 2, wire: 3, warmup: 10 * time.Millisecond,
	}
)

// A route is how a caller reaches the server.
type route int

// The routes.
const (
	direct  route = iota // for latency
	proxied              // for bytes and round trips; the proxy adds latency
)

// A costing is what the part cost works with: one server, the contestants, and
// a proxy that counts what they send.
type costing struct {
	costPlan
	*scope
	admin       *redis.Client // for what is not measured
	setter      *rratelimiter.Client
	proxy       *redistest.Proxy
	noise       *noise
	contestants []contestant
}

// measureCost measures and prints.
func measureCost(ctx context.Context, s *scope) (finding, error) {
	c, err := newCosting(ctx, s)
	if err != nil {
		return finding{}, err
	}
	r, err := c.measureAll(ctx)
	if err != nil {
		return finding{}, err
	}
	return finding{}, r.print(s.out)
}

// newCosting starts the server and the JVM and makes the contestants.
func newCosting(ctx context.Context, s *scope) (*costing, error) {
	peer, err := s.peer(ctx)
	if err != nil {
		return nil, err
	}
	server := redistest.Start(s)
	c := &costing{
		costPlan: amount(s, costFull, costBrief), scope: s,
		admin: server.Admin(), proxy: redistest.StartProxy(s, server.Addr),
	}
	c.setter, c.noise = s.client(c.admin), &noise{rdb: c.admin}
	// The keys of the noise are there from the beginning: every state is measured
	// in a database of the same size.
	if err := c.noise.prepare(ctx); err != nil {
		return nil, fmt.Errorf("preparing the noise: %w", err)
	}
	addrs := [...]string{direct: server.Addr, proxied: c.proxy.Addr}
	var rdbs [len(addrs)]*redis.Client
	for r, addr := range addrs {
		rdbs[r] = server.Client(s, func(o *redis.Options) { o.Addr = addr })
	}
	bare, err := newBare(ctx, c, rdbs, server.Client(s))
	if err != nil {
		return nil, err
	}
	java, err := newJavaLoop(ctx, peer, addrs)
	c.contestants = []contestant{
		costFloor: newCaller("floor", false, rdbs, newFloor),
		costBare:  bare,
		costOurs: newCaller("rratelimiter", true, rdbs, func(rdb *redis.Client) maker {
			return newOurs(s, rdb)
		}),
		costJava: java,
	}
	return c, err
}
