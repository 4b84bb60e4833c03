package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/shares"
)

// A lockScene is callers who want one lock. They are spread over processes, or what stands for them: Clients
// with connections of their own.
type lockScene struct {
	name               string // empty: one caller
	processes, callers int
	rounds             int // how often each of them takes it
	times              int // how many such crowds a batch has
	in                 lockTables
}

const lockProcesses = 4

func lockScenes(s *scope) []lockScene {
	callers, again, times := amount(s, 64, 8), amount(s, 30, 2), amount(s, 3, 1)
	scenes := []lockScene{{"", 1, 1, amount(s, 1000, 20), 1, inAlone}}
	for i, where := range []string{"one process", fmt.Sprintf("%d processes", lockProcesses)} {
		processes := []int{1, lockProcesses}[i]
		name := fmt.Sprintf("%d callers, %s, ", callers, where)
		scenes = append(scenes,
			lockScene{name + "once each", processes, callers, 1, times, inCrowds},
			lockScene{name + "again and again", processes, callers, again, 1, inCrowds})
	}
	return scenes
}

type lockResult struct {
	lockEntrant
	run      lockRun
	samples  [][]lockSample // by scene and round
	failed   []bool         // by scene
	requests num            // commands that a lone caller sends for lock and unlock
	allocs   num            // Go allocations for both, or noAllocs
}

// A lockArena is a server on which all take turns.
type lockArena struct {
	*scope
	server *redistest.Server
	admin  *redis.Client
	proxy  *redistest.Proxy
	peer   *javapeer.Peer
	scenes []lockScene

	results  []*lockResult
	failures []string // of rivals
}

type locksData struct {
	Redisson  string // version
	Versions  map[string]string
	Rounds    int
	Lease     string
	Processes int

	Alone    []lockRow
	Crowds   []lockTable
	Failures []string // scenes without the figures of a rival, and why
	Beside   *lockBeside
	Held     *locksHeld
}

type lockRow struct {
	Name string
	lockSample
	Requests, Allocs num
	ByP50, ByCPU     num // Lock, by it
}

type lockTable struct {
	Name string
	Rows []lockRow
}

func measureLocks(ctx context.Context, s *scope) finding {
	peer := get(s.peer(ctx))
	server := redistest.Start(s)
	a := &lockArena{
		scope: s, server: server, admin: server.Admin(), proxy: redistest.StartProxy(s, server.Addr),
		peer: peer, scenes: lockScenes(s),
	}
	d := &locksData{
		Redisson: peer.Version(), Rounds: s.rounds, Lease: lockLease.String(), Processes: lockProcesses,
		Versions: map[string]string{
			"Redislock":   moduleVersion("github.com/bsm/redislock"),
			"Redsync":     moduleVersion("github.com/go-redsync/redsync/v4"),
			"Rueidislock": moduleVersion("github.com/redis/rueidis"), // it is part of it
		},
	}
	for _, e := range lockEntrants {
		a.enter(ctx, e)
	}
	targets := a.takeTurns(ctx, d)
	d.Beside, d.Held = a.beside(ctx), measureHeld(ctx, s, peer)
	locks, lease := heldLoad(s)
	// Twice that of full batches, of 100 locks: those not taken together are renewed apart.
	bound := 2 * float64(locks) / 100 / (lease / 3).Seconds()
	return finding{d, append(targets,
		least("T17", fmt.Sprintf("a lock that %d callers of Go and %d of Java want: got by what was due, "+
			"of who got less", besideCallers, besideCallers), d.Beside.Least, shares.LeastRatio, ""),
		most("T17", fmt.Sprintf("%s locks held: script calls a second", thousands(float64(locks))),
			d.Held.Rows[0].Scripts, bound, ""))}
}

// takeTurns gives each entrant a batch in each scene, round after round. The CPU of the work of a hold,
// measured without a lock, is left out.
func (a *lockArena) takeTurns(ctx context.Context, d *locksData) (targets []target) {
	none := a.goRun(lockEntrant{made: newNoLock}, 1, a.server.Addr)
	must(takeTurns(ctx, "locks", a.rounds, len(a.results), func(who int) error {
		var bare []lockSample
		must(a.batch(ctx, none, a.scenes[0], &bare))
		for i := range a.scenes {
			if err := a.turn(ctx, a.results[who], i, bare[0].CPU); err != nil {
				return fmt.Errorf("%s, %s: %w", a.results[who].name, a.scenes[i].name, err)
			}
		}
		return nil
	}))
	golang, java := a.results[0], a.results[len(a.results)-1]
	for i, scene := range a.scenes {
		t, what := lockTable{Name: scene.name}, scene.name+": p50 of a hand-over"
		for _, r := range a.results {
			if of := r.samples[i]; len(of) > 0 {
				t.Rows = append(t.Rows, lockRow{
					r.name, medians(of), r.requests, r.allocs, ratio(golang.samples[i], of, lockP50),
					ratio(golang.samples[i], of, func(s lockSample) num { return s.CPU }),
				})
			}
		}
		if scene.in == inAlone {
			d.Alone, what = t.Rows, "a lock alone: p50 of unlock and lock"
			for _, r := range a.results {
				if r.name == "bsm/redislock" {
					by := ratio(golang.samples[i], r.samples[i], lockP50)
					targets = append(targets, most("T17", what+", by "+r.name, by, 1.15, ""))
				}
			}
		} else {
			d.Crowds = append(d.Crowds, t)
			targets = append(targets, most("T17", scene.name+": script calls of a hand-over",
				medians(golang.samples[i]).Scripts, 3, ""))
		}
		targets = append(targets,
			most("T17", what+", by Redisson", ratio(golang.samples[i], java.samples[i], lockP50), 1, ""))
	}
	d.Failures = a.failures
	return targets
}

// turn gives an entrant a batch in a scene, if it takes part. A rival that has failed there does so no more.
func (a *lockArena) turn(ctx context.Context, r *lockResult, scene int, work num) error {
	if r.in&a.scenes[scene].in == 0 || r.failed[scene] {
		return nil
	}
	err := a.batch(ctx, r.run, a.scenes[scene], &r.samples[scene])
	if err == nil {
		r.samples[scene][len(r.samples[scene])-1].CPU -= work
	}
	if err == nil || r == a.results[0] || ctx.Err() != nil {
		return err
	}
	r.failed[scene], r.samples[scene] = true, nil
	a.failures = append(a.failures, fmt.Sprintf("%s, %s: %v", r.name, a.scenes[scene].name, err))
	return nil
}

// enter warms an entrant up, and counts what a lone caller sends and allocates.
func (a *lockArena) enter(ctx context.Context, e lockEntrant) {
	r := &lockResult{
		lockEntrant: e, allocs: noAllocs,
		samples: make([][]lockSample, len(a.scenes)), failed: make([]bool, len(a.scenes)),
	}
	r.run, a.results = a.entrantRun(ctx, e, lockProcesses, a.server.Addr), append(a.results, r)
	long := 20 // rounds of a lone caller, after which scripts are loaded
	if e.made == nil {
		long = amount(a.scope, 5000, 20) // and the JVM has compiled what it runs
	}
	for _, c := range []lockCrowd{{callers: 1, rounds: long}, {callers: 32, rounds: max(1, long/50)}} {
		c.processes, c.name = 1, redistest.Name(a)
		get(r.run(ctx, c))
	}
	if e.in&inAlone == 0 {
		return
	}
	far := a.entrantRun(ctx, e, 1, a.proxy.Addr)
	// The first ones open the connections and load the scripts.
	for _, rounds := range []int{20, amount(a.scope, 500, 20)} {
		t := get(trafficOf(a.proxy, rounds, func() error {
			defer a.rest()
			_, err := far(ctx, lockCrowd{processes: 1, callers: 1, rounds: rounds, name: redistest.Name(a)})
			return err
		}))
		r.requests = t.Trips - lockWork
	}
	if e.made == nil {
		return
	}
	lock := get(e.made(a.scope, a.server.Client(a), lockLease))
	name := redistest.Name(a)
	r.allocs = get(allocsOf(ctx, func(ctx context.Context) (bool, error) {
		unlock, err := lock(ctx, name)
		if err == nil {
			err = unlock(ctx)
		}
		return true, err
	}, amount(a.scope, 1000, 20)))
}

func (a *lockArena) rest() { time.Sleep(amount(a.scope, 200*time.Millisecond, 0)) }

// lockPatience is longer than any batch takes. Without it a library that never wakes a caller would keep
// everything.
const lockPatience = time.Minute

func (a *lockArena) batch(ctx context.Context, run lockRun, scene lockScene, to *[]lockSample) error {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	runtime.GC() //revive:disable-line:call-to-gc none pays for the garbage of another
	var all handing
	used, err := usageDuring(ctx, a.admin, func() error {
		defer a.rest()
		for range scene.times {
			c := lockCrowd{scene.processes, scene.callers, scene.rounds, redistest.Name(a), time.Time{}}
			holds, err := run(ctx, c)
			if err = errors.Join(err, c.inside(ctx, a.admin, len(holds))); err != nil {
				return err
			}
			all.add(holds)
		}
		return nil
	})
	*to = append(*to, all.sample(used))
	return err
}
