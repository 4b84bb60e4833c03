package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// locksPart shows what locks cost, this library's beside those that people use now: alone,
// wanted by many, wanted by Go and Java, and held for long.
var locksPart = &part{
	name: "locks", set: setPage, measure: measureLocks,
	about: "locks beside rivals: alone, between 64 callers, beside Java, 10,000 held and renewed",
}

// A lockScene is callers who want one lock. They are spread over processes, or what stands
// for them: Clients with connections of their own.
type lockScene struct {
	name               string
	processes, callers int
	rounds             int // how often each of them takes it
	times              int // how many such crowds a batch has
	in                 lockTables
}

// crowd returns one of its crowds, for the lock called name.
func (sc lockScene) crowd(name string) lockCrowd {
	return lockCrowd{processes: sc.processes, callers: sc.callers, rounds: sc.rounds, name: name}
}

// The place of the scene of one caller.
const sceneAlone = 0

// lockProcesses are those of the scenes with several.
const lockProcesses = 4

// lockScenes returns all scenes.
func lockScenes(s *scope) []lockScene {
	callers, again, times := amount(s, 64, 8), amount(s, 30, 2), amount(s, 3, 1)
	scenes := []lockScene{sceneAlone: {"", 1, 1, amount(s, 1000, 20), 1, inAlone}}
	crowd := func(processes int, where string) {
		name := fmt.Sprintf("%d callers, %s, ", callers, where)
		scenes = append(scenes,
			lockScene{name + "once each", processes, callers, 1, times, inCrowds},
			lockScene{name + "again and again", processes, callers, again, 1, inCrowds})
	}
	crowd(1, "one process")
	crowd(lockProcesses, fmt.Sprintf("%d processes", lockProcesses))
	return scenes
}

// A lockResult is what an entrant showed.
type lockResult struct {
	lockEntrant
	samples  [][]lockSample // by scene and round
	failed   []bool         // by scene
	requests float64        // commands that a lone caller sends for lock and unlock
	allocs   float64        // Go allocations for both, or noAllocs
}

// A lockArena is a server on which all take turns.
type lockArena struct {
	scope  *scope
	server *redistest.Server
	admin  *redis.Client
	proxy  *redistest.Proxy
	peer   *javapeer.Peer
	scenes []lockScene

	results  []*lockResult
	failures []string     // of rivals
	work     []lockSample // of the work of a hold without a lock, by round
}

// measureLocks measures one thing after the other.
func measureLocks(ctx context.Context, s *scope) (finding, error) {
	peer, err := s.peer(ctx)
	if err != nil {
		return finding{}, err
	}
	server := redistest.Start(s)
	a := &lockArena{
		scope: s, server: server, admin: server.Admin(), proxy: redistest.StartProxy(s, server.Addr),
		peer: peer, scenes: lockScenes(s),
	}
	if err := a.takeTurns(ctx); err != nil {
		return finding{}, err
	}
	beside, err := a.beside(ctx)
	if err != nil {
		return finding{}, fmt.Errorf("beside Java: %w", err)
	}
	held, err := measureHeld(ctx, s, peer)
	if err != nil {
		return finding{}, fmt.Errorf("locks that are held: %w", err)
	}
	d := &locksData{
		Redisson: peer.Version(), Rounds: s.rounds, Lease: lockLease.String(), Processes: lockProcesses,
		Alone: a.aloneRows(), Crowds: a.crowdTables(), Failures: a.failures, Beside: beside, Held: held,
		Versions: lockVersions(),
		load:     loadOf(s),
	}
	return finding{d, append(a.targets(), d.targets()...)}, nil
}

// takeTurns gives each entrant a batch in each scene, round after round.
func (a *lockArena) takeTurns(ctx context.Context) error {
	sides, err := a.enter(ctx)
	if err != nil {
		return err
	}
	none, err := a.goSide(lockEntrant{made: newNoLock}, 1)
	if err != nil {
		return err
	}
	for round := range a.scope.rounds {
		if err := a.batch(ctx, none, a.scenes[sceneAlone], &a.work); err != nil {
			return err
		}
		for i, scene := range a.scenes {
			for j := range a.results {
				who := (j + round) % len(a.results)
				if err := a.turn(ctx, a.results[who], sides[who], i); err != nil {
					return fmt.Errorf("%s, %s: %w", a.results[who].name, scene.name, err)
				}
			}
		}
		progress("locks: round %d of %d", round+1, a.scope.rounds)
	}
	return nil
}

// turn gives an entrant a batch in a scene, if it takes part. A rival that has failed
// there does so no more.
func (a *lockArena) turn(ctx context.Context, r *lockResult, side lockSide, scene int) error {
	if r.in&a.scenes[scene].in == 0 || r.failed[scene] {
		return nil
	}
	err := a.batch(ctx, side, a.scenes[scene], &r.samples[scene])
	if err == nil || r.name == ourLockName || ctx.Err() != nil {
		return err
	}
	r.failed[scene], r.samples[scene] = true, nil
	a.failures = append(a.failures, fmt.Sprintf("%s, %s: %v", r.name, a.scenes[scene].name, err))
	return nil
}

// enter returns the callers of each entrant, warm, and has noted what a lone one sends.
func (a *lockArena) enter(ctx context.Context) (sides []lockSide, err error) {
	for _, e := range lockEntrants {
		if e.in&(inAlone|inCrowds) == 0 {
			continue
		}
		r := &lockResult{
			lockEntrant: e, allocs: noAllocs,
			samples: make([][]lockSample, len(a.scenes)), failed: make([]bool, len(a.scenes)),
		}
		side, err := a.side(ctx, e)
		if err == nil && e.in&inAlone != 0 {
			err = a.weigh(ctx, r)
		}
		if err == nil {
			err = a.warm(ctx, side)
		}
		if err == nil && e.in&inAlone != 0 {
			err = a.count(ctx, r, side)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		a.results, sides = append(a.results, r), append(sides, side)
	}
	return sides, nil
}

// side returns the callers of an entrant, for as many processes as scenes have.
func (a *lockArena) side(ctx context.Context, e lockEntrant) (lockSide, error) {
	if e.made != nil {
		return a.goSide(e, lockProcesses)
	}
	return a.javaSide(ctx, a.server.Addr, lockProcesses)
}

// goSide returns callers in Go.
func (a *lockArena) goSide(e lockEntrant, processes int, opts ...func(*redis.Options)) (*goLocks, error) {
	side := &goLocks{}
	for range processes {
		rdb := a.server.Client(a.scope, append(opts, patient)...)
		lock, err := e.made(a.scope, rdb, lockLease)
		if err != nil {
			return nil, err
		}
		side.lockers, side.rdbs = append(side.lockers, lock), append(side.rdbs, rdb)
	}
	return side, nil
}

// javaSide returns threads in Java.
func (a *lockArena) javaSide(ctx context.Context, addr string, processes int) (*javaLocks, error) {
	side := &javaLocks{peer: a.peer}
	for range processes {
		client := redistest.Name(a.scope)
		if _, err := a.peer.Connect(ctx, client, addr); err != nil {
			return nil, err
		}
		side.clients = append(side.clients, client)
	}
	return side, nil
}

// warm lets the JVM compile what it runs, and loads scripts.
func (a *lockArena) warm(ctx context.Context, side lockSide) error {
	long := 20 // rounds of a lone caller
	if _, java := side.(*javaLocks); java {
		long = amount(a.scope, 5000, 20)
	}
	for _, c := range []lockCrowd{{callers: 1, rounds: long}, {callers: 32, rounds: max(1, long/50)}} {
		c.processes, c.name = 1, redistest.Name(a.scope)
		if _, err := side.run(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// rest returns when a library has done what it does after its unlocks.
func (a *lockArena) rest() { time.Sleep(amount(a.scope, 200*time.Millisecond, 0)) }

// batch measures the crowds of a scene.
func (a *lockArena) batch(ctx context.Context, side lockSide, scene lockScene, to *[]lockSample) error {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	runtime.GC() //revive:disable-line:call-to-gc none pays for the garbage of another
	before, err := readUsage(ctx, a.admin)
	if err != nil {
		return err
	}
	var all handing
	for range scene.times {
		c := scene.crowd(redistest.Name(a.scope))
		holds, err := side.run(ctx, c)
		if err == nil {
			err = c.inside(ctx, a.admin, len(holds))
		}
		if err != nil {
			return err
		}
		all.add(handingOf(holds))
	}
	a.rest()
	after, err := readUsage(ctx, a.admin)
	*to = append(*to, all.sample(after.since(before)))
	return err
}

// lockPatience is longer than any batch takes. Without it a library that never wakes a
// caller would keep everything.
const lockPatience = time.Minute

// weigh counts the commands that a lone caller sends.
func (a *lockArena) weigh(ctx context.Context, r *lockResult) error {
	far, err := a.farSide(ctx, r.lockEntrant)
	if err != nil {
		return err
	}
	// The first ones open the connections and load the scripts.
	for _, rounds := range []int{20, amount(a.scope, 500, 20)} {
		_, _, before, _ := a.proxy.Stats()
		c := lockCrowd{processes: 1, callers: 1, rounds: rounds, name: redistest.Name(a.scope)}
		if _, err := far.run(ctx, c); err != nil {
			return err
		}
		a.rest()
		_, _, after, _ := a.proxy.Stats()
		r.requests = float64(after-before)/float64(rounds) - lockWork
	}
	return nil
}

// farSide returns the callers of one process, behind the proxy.
func (a *lockArena) farSide(ctx context.Context, e lockEntrant) (lockSide, error) {
	if e.made == nil {
		return a.javaSide(ctx, a.proxy.Addr, 1)
	}
	return a.goSide(e, 1, func(o *redis.Options) { o.Addr = a.proxy.Addr })
}

// count counts the Go allocations of a lock and its unlock.
func (a *lockArena) count(ctx context.Context, r *lockResult, side lockSide) (err error) {
	here, ok := side.(*goLocks)
	if !ok {
		return nil
	}
	lock, name := here.lockers[0], redistest.Name(a.scope)
	r.allocs, err = allocsOf(ctx, func(ctx context.Context) (bool, error) {
		unlock, err := lock(ctx, name)
		if err == nil {
			err = unlock(ctx)
		}
		return true, err
	}, amount(a.scope, 1000, 20))
	return err
}
