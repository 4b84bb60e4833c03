package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// callersPart answers what most people ask first: how many acquires a second,
// how late, and at what price for Redis. One limiter is asked by all callers: a
// limit that many share is what a limiter on Redis is for.
var callersPart = &part{
	name: "callers", set: setPage, measure: measureCallers,
	about: "acquires a second, latency and CPU of Redis, 1 to 4,096 callers, beside all rivals",
}

// counts are the numbers of callers that are measured: a service that is idle,
// busy, or flooded, in steps of eight.
var counts = []int{1, 8, 64, 512, 4096}

// A callersResult is what all contestants showed.
type callersResult struct {
	redis, redisson string // versions
	tables          []table
	turns           [][]spread // for each round: floor, ours, alone
}

// A table is what they showed with one number of callers.
type table struct {
	callers int
	rows    [contestants][]sample // one sample for each round
	failed  [contestants]string   // why a contestant has none
}

// An arena is where the contestants meet: one server and one JVM.
type arena struct {
	scope  *scope
	admin  *redis.Client // for what is not measured
	setter *rratelimiter.Client
	makers [contestants]maker
	peer   *javapeer.Peer
}

// newArena starts both and makes the contestants. They share the server: servers
// of their own would differ by where their memory lies.
func newArena(ctx context.Context, s *scope) (*arena, error) {
	peer, err := s.peer(ctx)
	if err != nil {
		return nil, err
	}
	server := redistest.Start(s)
	if _, err := peer.Connect(ctx, javaClient, server.Addr, javapeer.Timeout(time.Minute)); err != nil {
		return nil, err
	}
	// Each contestant has a pool of its own, as if it were the only one.
	a := &arena{scope: s, admin: server.Admin(), setter: s.client(server.Admin()), peer: peer}
	for i, newMaker := range map[int]func(*redis.Client) maker{
		floor: newFloor, rate: newRate,
		ours:  func(rdb *redis.Client) maker { return newOurs(s, rdb) },
		alone: func(rdb *redis.Client) maker { return newAlone(s, rdb) },
	} {
		a.makers[i] = newMaker(server.Client(s, patient))
	}
	a.makers[fixed], err = newFixed(s, server)
	return a, err
}

// measureCallers measures round after round. In each round every contestant
// has a batch with each number of callers.
func measureCallers(ctx context.Context, s *scope) (finding, error) {
	a, err := newArena(ctx, s)
	if err != nil {
		return finding{}, err
	}
	callers := amount(s, counts, []int{1, 64})
	r := &callersResult{redisson: a.peer.Version(), tables: make([]table, len(callers))}
	if r.redis, err = serverVersion(ctx, a.admin); err != nil {
		return finding{}, err
	}
	for _, threads := range []int{1, 64} { // a lone thread and many take other paths
		if err := a.warmJVM(ctx, threads); err != nil {
			return finding{}, err
		}
	}
	for round := range s.rounds {
		t, err := a.turn(ctx)
		if err != nil {
			return finding{}, err
		}
		r.turns = append(r.turns, t)
		for i, n := range callers {
			r.tables[i].callers = n
			if err := a.round(ctx, &r.tables[i], round); err != nil {
				return finding{}, err
			}
		}
		progress("callers: round %d of %d", round+1, s.rounds)
	}
	return finding{r.data(), r.targets()}, nil
}

// turn measures lone callers call by call: the floor, ours, and ours with a
// Client for each caller.
func (a *arena) turn(ctx context.Context) ([]spread, error) {
	name, remove, err := a.limiter(ctx)
	if err != nil {
		return nil, err
	}
	defer remove()
	asks := make([]ask, alone+1)
	for who := range asks {
		asks[who] = a.makers[who].one(name)
	}
	return inTurns(ctx, asks, amount(a.scope, 4000, 20)) // 40 calls beyond the p99
}

// round gives every contestant a batch. Each round begins with another one, so
// that none always follows the same one. Only Redisson may fail: a JVM may not
// manage as many threads.
func (a *arena) round(ctx context.Context, t *table, round int) error {
	for i := range contestants {
		who := (i + round) % contestants
		if t.failed[who] != "" {
			continue
		}
		runtime.GC() //revive:disable-line:call-to-gc none pays for the garbage of another
		got, err := a.batch(ctx, who, t.callers)
		if err != nil && who == redisson && ctx.Err() == nil {
			t.failed[who] = err.Error()
			continue
		}
		if err != nil {
			return fmt.Errorf("%s, %d callers: %w", labels[who], t.callers, err)
		}
		t.rows[who] = append(t.rows[who], got)
	}
	return nil
}

// batch gives a contestant a limiter of its own.
func (a *arena) batch(ctx context.Context, who, callers int) (s sample, err error) {
	name, remove, err := a.limiter(ctx)
	if err != nil {
		return s, err
	}
	defer remove()
	if who == redisson {
		return a.javaBatch(ctx, name, callers)
	}
	return a.scope.runBatch(ctx, a.admin, a.makers[who](name, callers))
}

// limiter makes a limiter, which serves Redisson as well. It returns its name
// and a function that removes it.
func (a *arena) limiter(ctx context.Context) (name string, remove func(), err error) {
	name = redistest.Name(a.scope)
	_, err = a.setter.RateLimiter(name).TrySetRate(ctx, rratelimiter.Overall, plenty, interval)
	return name, func() { _ = a.admin.FlushDBAsync(ctx).Err() }, err // an error shows in the next batch
}
