package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// A locker waits for the lock of a name, and returns the function that unlocks it.
type locker func(ctx context.Context, name string) (unlock func(context.Context) error, err error)

// A lockMaker makes the locker of one process. Its locks last for a lease, and who renews them does so each
// third of it.
type lockMaker func(s *scope, rdb *redis.Client, lease time.Duration) (locker, error)

// lockLease is Redisson's and this library's by default, and is given to all.
const lockLease = 30 * time.Second

type lockEntrant struct {
	name string
	in   lockTables
	made lockMaker // nil: Redisson
}

type lockTables int

const (
	inAlone lockTables = 1 << iota
	inCrowds
	inHeld
)

// lockEntrants are all, in the order of the tables. The first one is compared with the others, and the last
// one is Redisson.
var lockEntrants = []lockEntrant{
	{"this library, Lock", inAlone | inCrowds | inHeld,
		newOurLock(func(c *rlock.Client, name string) ownLock { return c.Lock(name) })},
	{"this library, FencedLock", inAlone,
		newOurLock(func(c *rlock.Client, name string) ownLock { return c.FencedLock(name) })},
	{"this library, FairLock", inAlone | inCrowds,
		newOurLock(func(c *rlock.Client, name string) ownLock { return c.FairLock(name) })},
	{"bsm/redislock", inAlone, newRedislock(time.Millisecond)}, // alone it does not ask again
	{"bsm/redislock, each 1 ms", inCrowds, newRedislock(time.Millisecond)},
	{"bsm/redislock, each 100 ms", inCrowds, newRedislock(100 * time.Millisecond)},
	{"redsync", inAlone | inCrowds, newRedsync},
	{"rueidislock", inAlone | inCrowds | inHeld, newRueidislock},
	{"Redisson, RLock", inAlone | inCrowds | inHeld, nil},
}

type ownLock interface {
	Lock(ctx context.Context) (*rlock.Hold, error)
}

func newOurLock(of func(c *rlock.Client, name string) ownLock) lockMaker {
	return func(s *scope, rdb *redis.Client, lease time.Duration) (locker, error) {
		c := rlock.New(s.client(rdb), rlock.WithWatchdogTimeout(lease))
		return func(ctx context.Context, name string) (func(context.Context) error, error) {
			hold, err := of(c, name).Lock(ctx)
			if err != nil {
				return nil, err
			}
			return hold.Unlock, nil
		}, nil
	}
}

// newRedislock asks again each time that pause is over.
func newRedislock(pause time.Duration) lockMaker {
	return func(_ *scope, rdb *redis.Client, lease time.Duration) (locker, error) {
		c := redislock.New(rdb)
		again := &redislock.Options{RetryStrategy: redislock.LinearBackoff(pause)}
		return func(ctx context.Context, name string) (func(context.Context) error, error) {
			lock, err := c.Obtain(ctx, name, lease, again)
			if err != nil {
				return nil, err
			}
			return lock.Release, nil
		}, nil
	}
}

// newRedsync asks again after 50 to 250 ms, as it does by default, but does not give up.
func newRedsync(_ *scope, rdb *redis.Client, lease time.Duration) (locker, error) {
	const tries = 1 << 20
	c := redsync.New(redsyncpool.NewPool(rdb))
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		m := c.NewMutex(name, redsync.WithExpiry(lease), redsync.WithTries(tries))
		return func(ctx context.Context) error {
			_, err := m.UnlockContext(ctx)
			return err
		}, m.LockContext(ctx)
	}, nil
}

// newRueidislock has a client of its own, to the same address, and the options that its page recommends for
// one server of Redis 7. A try may take longer than its default of 20 ms: on a busy machine some did, and
// those that waited were never told after that.
func newRueidislock(s *scope, rdb *redis.Client, lease time.Duration) (locker, error) {
	c, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{rdb.Options().Addr}},
		KeyMajority:  1, NoLoopTracking: true, KeyValidity: lease, ExtendInterval: lease / 3,
		TryNextAfter: lease,
	})
	if err != nil {
		return nil, err
	}
	s.Cleanup(c.Close)
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		_, cancel, err := c.WithContext(ctx, name)
		return func(context.Context) error {
			cancel()
			return nil
		}, err
	}, nil
}

// newNoLock has only the work of the holds measured.
func newNoLock(*scope, *redis.Client, time.Duration) (locker, error) {
	return func(context.Context, string) (func(context.Context) error, error) {
		return func(context.Context) error { return nil }, nil
	}, nil
}

// A lockCrowd is callers that take one lock, so many rounds each, and begin together. They are spread over
// processes.
type lockCrowd struct {
	processes, callers, rounds int
	name                       string    // of the lock
	until                      time.Time // callers in Go take it no more after that; zero: they do
}

// counter is the key of the number that each hold makes one greater, by a GET and a SET. If two callers had
// the lock at once, it is less than the holds in the end.
func (c lockCrowd) counter() string { return c.name + ":counter" }

// lockWork is how many commands a hold sends for that.
const lockWork = 2

// inside returns an error if two callers had the lock at once.
func (c lockCrowd) inside(ctx context.Context, admin *redis.Client, holds int) error {
	n, err := admin.Get(ctx, c.counter()).Int()
	if err == nil && n != holds {
		err = fmt.Errorf("two were inside at once: %d holds, and the counter is %d", holds, n)
	}
	return err
}

// A lockRun runs a crowd, and returns the holds of all callers, in no order.
type lockRun func(ctx context.Context, c lockCrowd) ([]lockHold, error)

// entrantRun returns the callers of an entrant, for so many processes.
func (a *lockArena) entrantRun(ctx context.Context, e lockEntrant, processes int, addr string) lockRun {
	if e.made != nil {
		return a.goRun(e, processes, addr)
	}
	var clients []string
	for range processes {
		clients = append(clients, redistest.Name(a))
		get(a.peer.Connect(ctx, clients[len(clients)-1], addr))
	}
	return func(ctx context.Context, c lockCrowd) (holds []lockHold, err error) {
		lock := a.peer.Lock(clients[0], c.name, javapeer.Reentrant)
		got, err := lock.StartCrowd(javapeer.LockCrowdOptions{
			Threads: c.callers, Rounds: c.rounds, Counter: c.counter(), Clients: clients[:c.processes],
		}).Wait(ctx)
		for _, h := range got.Holds {
			holds = append(holds, lockHold{h.From, h.To, noCaller})
		}
		if err == nil && len(got.Errors) > 0 {
			err = fmt.Errorf("exceptions in Java: %v", got.Errors)
		}
		return holds, err
	}
}

// goRun returns callers in Go. Each process has a locker, and connections of its own.
func (a *lockArena) goRun(e lockEntrant, processes int, addr string) lockRun {
	rdbs, lockers := make([]*redis.Client, processes), make([]locker, processes)
	for i := range rdbs {
		rdbs[i] = a.server.Client(a, patient, func(o *redis.Options) { o.Addr = addr })
		lockers[i] = get(e.made(a.scope, rdbs[i], lockLease))
	}
	return func(ctx context.Context, c lockCrowd) ([]lockHold, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		asking := ctx
		if c.callers == 1 { // as a lone caller of a limiter asks (lone.go)
			asking = context.WithoutCancel(ctx)
		}
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
					h, err := c.hold(asking, lockers[i%c.processes], rdbs[i%c.processes], i)
					if err != nil {
						cancel(err) // the others would wait for the lock that it may have
						return
					}
					holds[i] = append(holds[i], h)
				}
			})
		}
		close(begin)
		all.Wait()
		return slices.Concat(holds...), context.Cause(ctx)
	}
}

func (c lockCrowd) hold(ctx context.Context, lock locker, rdb *redis.Client, caller int) (lockHold, error) {
	unlock, err := lock(ctx, c.name)
	if err != nil {
		return lockHold{}, err
	}
	h := lockHold{from: time.Now(), caller: caller}
	n, err := rdb.Get(ctx, c.counter()).Int64()
	if err == nil || errors.Is(err, redis.Nil) {
		err = rdb.Set(ctx, c.counter(), n+1, 0).Err()
	}
	h.to = time.Now()
	return h, errors.Join(err, unlock(ctx))
}
