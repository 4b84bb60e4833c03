package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
)

// A lockHold is the time from when a caller had the lock until it began to unlock it.
type lockHold struct {
	from, to time.Time
	caller   int // noCaller: unknown
}

// noCaller is the caller of a hold in Java.
const noCaller = -1

// A lockCrowd is callers that take one lock, so many rounds each, and begin together. They
// are spread over processes.
type lockCrowd struct {
	processes, callers, rounds int
	name                       string    // of the lock
	until                      time.Time // callers in Go take it no more after that; zero: they do
}

// counter is the key of the number that each hold makes one greater, by a GET and a
// SET. If two callers had the lock at once, it is less than the holds in the end.
func (c lockCrowd) counter() string { return c.name + ":counter" }

// lockWork is how many commands a hold sends for that.
const lockWork = 2

// A lockSide is callers of one kind: in Go with one locker for each process, or threads
// of Java with one instance for each.
type lockSide interface {
	run(ctx context.Context, c lockCrowd) ([]lockHold, error)
}

// A goLocks is callers in Go. Each process has a locker, and a connection for the counter.
type goLocks struct {
	lockers []locker
	rdbs    []*redis.Client
}

// run returns the holds of all callers, in no order.
func (g *goLocks) run(ctx context.Context, c lockCrowd) ([]lockHold, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	holds := make([][]lockHold, c.callers)
	begin := make(chan struct{})
	var all sync.WaitGroup
	for i := range c.callers {
		all.Go(func() {
			<-begin
			for range c.rounds {
				if !c.until.IsZero() && time.Now().After(c.until) {
					return
				}
				hold, err := g.hold(ctx, c, i)
				if err != nil {
					cancel(err) // the others would wait for the lock that it may have
					return
				}
				holds[i] = append(holds[i], hold)
			}
		})
	}
	close(begin)
	all.Wait()
	return slices.Concat(holds...), context.Cause(ctx)
}

// hold takes the lock once.
func (g *goLocks) hold(ctx context.Context, c lockCrowd, caller int) (lockHold, error) {
	process := caller % c.processes
	unlock, err := g.lockers[process](ctx, c.name)
	if err != nil {
		return lockHold{}, err
	}
	h := lockHold{from: time.Now(), caller: caller}
	err = increment(ctx, g.rdbs[process], c.counter())
	h.to = time.Now()
	return h, errors.Join(err, unlock(ctx))
}

// increment makes the number of a key one greater. Without a lock it may be lost.
func increment(ctx context.Context, rdb *redis.Client, key string) error {
	n, err := rdb.Get(ctx, key).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	return rdb.Set(ctx, key, n+1, 0).Err()
}

// A javaLocks is threads of Java.
type javaLocks struct {
	peer    *javapeer.Peer
	clients []string
}

// start starts a crowd.
func (j *javaLocks) start(c lockCrowd) *javapeer.Started[javapeer.LockCrowdResult] {
	return j.peer.Lock(j.clients[0], c.name, javapeer.Reentrant).StartCrowd(javapeer.LockCrowdOptions{
		Threads: c.callers, Rounds: c.rounds, Counter: c.counter(), Clients: j.clients[:c.processes],
	})
}

// run returns the holds of all threads.
func (j *javaLocks) run(ctx context.Context, c lockCrowd) ([]lockHold, error) {
	got, err := j.start(c).Wait(ctx)
	return javaHolds(got), errors.Join(err, thrown(got))
}

// javaHolds returns the holds of a crowd.
func javaHolds(got javapeer.LockCrowdResult) (holds []lockHold) {
	for _, h := range got.Holds {
		holds = append(holds, lockHold{h.From, h.To, noCaller})
	}
	return holds
}

// thrown returns the exceptions of a crowd.
func thrown(got javapeer.LockCrowdResult) error {
	if len(got.Errors) > 0 {
		return fmt.Errorf("exceptions in Java: %v", got.Errors)
	}
	return nil
}

// inside returns an error if two callers had the lock at once.
func (c lockCrowd) inside(ctx context.Context, admin *redis.Client, holds int) error {
	n, err := admin.Get(ctx, c.counter()).Int()
	if err == nil && n != holds {
		err = fmt.Errorf("two were inside at once: %d holds, and the counter is %d", holds, n)
	}
	return err
}

// A handing is how holds followed one another.
type handing struct {
	gaps   []time.Duration // from the begin of an unlock until the next caller had the lock
	others int             // of these, how many callers were not those before
	took   time.Duration   // from the first hold to the last
	known  bool            // who the callers were
}

// handingOf returns how holds followed one another.
func handingOf(holds []lockHold) (h handing) {
	inOrder(holds)
	for i := 1; i < len(holds); i++ {
		h.gaps = append(h.gaps, holds[i].from.Sub(holds[i-1].to))
		if holds[i].caller != holds[i-1].caller {
			h.others++
		}
	}
	if len(holds) > 0 {
		h.took = holds[len(holds)-1].from.Sub(holds[0].from)
		h.known = holds[0].caller != noCaller
	}
	return h
}

// add adds what came of another crowd.
func (h *handing) add(other handing) {
	h.gaps, h.took = append(h.gaps, other.gaps...), h.took+other.took
	h.others, h.known = h.others+other.others, other.known
}

// A lockSample is what a batch showed, for each hand-over: a crowd of n holds has n-1.
type lockSample struct {
	p50, p99  float64 // µs from the begin of an unlock until the next caller has the lock
	perSecond float64
	others    float64 // the part of them that went to another caller, NaN if it is not known
	scripts   float64 // script calls
	cpu       float64 // µs of the process of Redis, with the work of the holds
}

// The figures of a lockSample.
func lockP50(s lockSample) float64       { return s.p50 }
func lockP99(s lockSample) float64       { return s.p99 }
func lockPerSecond(s lockSample) float64 { return s.perSecond }
func lockOthers(s lockSample) float64    { return s.others }
func lockScripts(s lockSample) float64   { return s.scripts }
func lockCPU(s lockSample) float64       { return s.cpu }

// sample returns the figures of a batch, during which Redis was used.
func (h *handing) sample(used usage) lockSample {
	n := float64(max(1, len(h.gaps)))
	s := lockSample{
		p50: micros(quantile(h.gaps, 0.50)), p99: micros(quantile(h.gaps, 0.99)),
		perSecond: float64(len(h.gaps)) / cmp.Or(h.took, 1).Seconds(), others: math.NaN(),
		scripts: used.scripts().calls / n, cpu: used.cpu * 1e6 / n,
	}
	if h.known {
		s.others = float64(h.others) / n
	}
	return s
}
