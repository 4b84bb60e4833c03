package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A callersResult is what the contestants have shown.
type callersResult struct {
	redis, redisson string // versions
	tables          []table
	turns           []turn // one for each round
}

// A table is what they have shown with one number of callers.
type table struct {
	callers int
	rows    [contestants][]sample // one for each round
	failed  [contestants]string   // why there is none
}

// measuring callers needs these.
type arena struct {
	scope  *scope
	plan   plan
	admin  *redis.Client
	setter *rratelimiter.Client
	makers [contestants]maker
	peer   *javapeer.Peer
}

func newArena(ctx context.Context, s *scope, pl plan) (*arena, error) {
	peer, err := javapeer.Start(ctx, "")
	if err != nil {
		return nil, err
	}
	s.Cleanup(func() { _ = peer.Close() }) // it has answered what we wanted to know
	server := redistest.Start(s)
	if _, err := peer.Connect(ctx, javaClient, server.Addr, javapeer.Timeout(time.Minute)); err != nil {
		return nil, err
	}
	a := &arena{scope: s, plan: pl, admin: server.Admin(), setter: s.client(server.Admin()), peer: peer}
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

func measureCallers(ctx context.Context, s *scope, pl plan) (*callersResult, error) {
	a, err := newArena(ctx, s, pl)
	if err != nil {
		return nil, err
	}
	r := &callersResult{redisson: a.peer.Version(), tables: make([]table, len(pl.counts))}
	if r.redis, err = serverVersion(ctx, a.admin); err != nil {
		return nil, err
	}
	for _, threads := range []int{1, 64} {
		if err := a.warmJVM(ctx, threads); err != nil {
			return nil, err
		}
	}
	for round := range pl.rounds {
		t, err := a.turn(ctx)
		if err != nil {
			return nil, err
		}
		r.turns = append(r.turns, t)
		for i, callers := range pl.counts {
			r.tables[i].callers = callers
			if err := a.round(ctx, &r.tables[i], round); err != nil {
				return nil, err
			}
		}
		fmt.Fprintf(os.Stderr, "callers: round %d of %d\n", round+1, pl.rounds)
	}
	return r, nil
}

// round gives every contestant a batch. Each round another one begins, so that
// none always follows the same one. Only Redisson may fail, as a JVM may not
// manage as many threads.
func (a *arena) round(ctx context.Context, t *table, round int) error {
	for i := range contestants {
		who := (i + round) % contestants
		if t.failed[who] != "" {
			continue
		}
		runtime.GC() //revive:disable-line:call-to-gc none pays for what another has left
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
	return runBatch(ctx, a.admin, a.makers[who](name, callers), a.plan)
}

// limiter makes a limiter and returns its name, which is as good for Redisson
// as for us, and what removes it.
func (a *arena) limiter(ctx context.Context) (name string, remove func(), err error) {
	name = redistest.Name(a.scope)
	_, err = a.setter.RateLimiter(name).TrySetRate(ctx, rratelimiter.Overall, plenty, interval)
	return name, func() { _ = a.admin.FlushDBAsync(ctx).Err() }, err // the next batch has another name
}
