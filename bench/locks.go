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

// lockLease is Redisson's and this library's by default, and is given to all.
const lockLease = 30 * time.Second

func newOurs(fair bool) func(*env, *redis.Client) locker {
	return func(e *env, rdb *redis.Client) locker {
		c := rlock.New(e.client(rdb))
		return func(ctx context.Context, name string) (func(context.Context) error, error) {
			lock := c.Lock(name).Lock
			if fair {
				lock = c.FairLock(name).Lock
			}
			hold, err := lock(ctx)
			return hold.Unlock, err
		}
	}
}

// newRedislock asks again each ms: it has no default.
func newRedislock(_ *env, rdb *redis.Client) locker {
	c := redislock.New(rdb)
	again := &redislock.Options{RetryStrategy: redislock.LinearBackoff(time.Millisecond)}
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		lock, err := c.Obtain(ctx, name, lockLease, again)
		return lock.Release, err
	}
}

// newRedsync asks again after 50 to 250 ms, as it does by default, but does not give up.
func newRedsync(_ *env, rdb *redis.Client) locker {
	c := redsync.New(redsyncpool.NewPool(rdb))
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		m := c.NewMutex(name, redsync.WithExpiry(lockLease), redsync.WithTries(1<<20))
		return func(ctx context.Context) error {
			_, err := m.UnlockContext(ctx)
			return err
		}, m.LockContext(ctx)
	}
}

// newRueidislock has a client of its own, and the options that its page recommends for one server of Redis 7.
// A try may take longer than the default of 20 ms, because on a busy machine some do, and callers wait for
// ever. Some callers still do, even a lone one, and must not keep all other rivals waiting.
func newRueidislock(e *env, rdb *redis.Client) locker {
	c := get(rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{rdb.Options().Addr}},
		KeyMajority:  1, NoLoopTracking: true, KeyValidity: lockLease, ExtendInterval: lockLease / 3,
		TryNextAfter: lockLease,
	}))
	e.Cleanup(c.Close)
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		ctx, leave := context.WithTimeout(ctx, lockPatience)
		_, cancel, err := c.WithContext(ctx, name)
		return func(context.Context) error {
			cancel()
			leave()
			return nil
		}, err
	}
}

// newNoLock returns a locker without a lock, to measure the work of the holds alone.
func newNoLock(*env, *redis.Client) locker {
	return func(context.Context, string) (func(context.Context) error, error) {
		return func(context.Context) error { return nil }, nil
	}
}

// A hold is from when a caller has the lock until it begins to unlock.
type hold struct{ from, to time.Time }

// holds lets callers take a lock again and again, and returns their holds. In each hold a caller reads the
// number of a key and writes it back one greater.
type holds func(ctx context.Context, c crowd, lock, counter string, times int) ([]hold, error)

// processes is the most that a crowd is spread over.
const processes = 4

// inGo returns callers in Go. Each process has connections of its own.
func inGo(e *env, made func(*env, *redis.Client) locker) holds {
	var rdbs [processes]*redis.Client
	var lockers [processes]locker
	for i := range rdbs {
		rdbs[i] = e.rdb()
		lockers[i] = made(e, rdbs[i])
	}
	return func(ctx context.Context, c crowd, lock, counter string, times int) ([]hold, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		asking := ctx
		if c.callers == 1 { // as a lone caller of a limiter asks
			asking = context.WithoutCancel(ctx)
		}
		all := make([][]hold, c.callers)
		var running sync.WaitGroup
		for i := range c.callers {
			running.Go(func() {
				for range times {
					process := i % c.processes
					h, err := holdOnce(asking, lockers[process], rdbs[process], lock, counter)
					if err != nil {
						cancel(err) // the others would wait for the lock that it may have
						return
					}
					all[i] = append(all[i], h)
				}
			})
		}
		running.Wait()
		return slices.Concat(all...), context.Cause(ctx)
	}
}

func holdOnce(ctx context.Context, l locker, rdb *redis.Client, lock, counter string) (h hold, err error) {
	unlock, err := l(ctx, lock)
	if err != nil {
		return h, err
	}
	h.from = time.Now()
	n, err := rdb.Get(ctx, counter).Int64()
	if err == nil || errors.Is(err, redis.Nil) {
		err = rdb.Set(ctx, counter, n+1, 0).Err()
	}
	h.to = time.Now()
	return h, errors.Join(err, unlock(ctx))
}

// inJava returns threads of Redisson, with an instance for each process.
func inJava(ctx context.Context, e *env) holds {
	peer := get(e.java(ctx))
	var clients []string
	for range processes {
		clients = append(clients, redistest.Name(e))
		get(peer.Connect(ctx, clients[len(clients)-1], e.server.Addr))
	}
	return func(ctx context.Context, c crowd, lock, counter string, times int) (all []hold, err error) {
		l := peer.Lock(clients[0], lock, javapeer.Reentrant)
		got, err := l.StartCrowd(javapeer.LockCrowdOptions{
			Threads: c.callers, Rounds: times, Counter: counter, Clients: clients[:c.processes],
		}).Wait(ctx)
		for _, h := range got.Holds {
			all = append(all, hold{h.From, h.To})
		}
		if err == nil && len(got.Errors) > 0 {
			err = fmt.Errorf("exceptions in Java: %v", got.Errors)
		}
		return all, err
	}
}

func lock(made func(*env, *redis.Client) locker) func(context.Context, *env) turner {
	return func(ctx context.Context, e *env) turner { return e.locks(ctx, inGo(e, made)) }
}

func redissonLock(ctx context.Context, e *env) turner {
	run := inJava(ctx, e)
	// Until the JVM has compiled what it runs.
	get(run(ctx, crowd{1, 1}, redistest.Name(e), redistest.Name(e), amount(e, 5000, 20)))
	return e.locks(ctx, run)
}

// lockPatience is longer than any turn takes: a library that never wakes a caller would keep everything.
const lockPatience = 20 * time.Second

// locks measures how holds follow one another.
func (e *env) locks(ctx context.Context, run holds) turner {
	none := inGo(e, newNoLock)
	// It loads the scripts. A library that fails here fails again below, where a rival may.
	_, _ = run(ctx, crowd{8, 1}, redistest.Name(e), redistest.Name(e), 2)
	return func(ctx context.Context, c crowd) (sample, error) {
		ctx, cancel := context.WithTimeout(ctx, lockPatience)
		defer cancel()
		times := amount(e, 30, 2)
		if c.callers == 1 {
			times = amount(e, 1000, 20)
		}
		// The work of a hold is that of the caller, not of the lock.
		work, err := e.handing(ctx, none, crowd{1, 1}, times)
		if err != nil {
			return work, err
		}
		s, err := e.handing(ctx, run, c, times)
		s.cpu -= work.cpu
		return s, err
	}
}

// handing measures hand-overs: from the beginning of an unlock until the next caller has the lock. It is an
// error if two callers had the lock at once: then the number in the end is less than the holds.
func (e *env) handing(ctx context.Context, run holds, c crowd, times int) (s sample, err error) {
	var all []hold
	counter := redistest.Name(e)
	used, err := e.usage(ctx, func() (err error) {
		all, err = run(ctx, c, redistest.Name(e), counter, times)
		time.Sleep(amount(e, 100*time.Millisecond, 0)) // for what an unlock leaves
		return err
	})
	if err != nil {
		return s, err
	}
	n, err := e.admin.Get(ctx, counter).Int()
	if err == nil && n != len(all) {
		err = fmt.Errorf("two were inside at once: %d holds, and the counter is %d", len(all), n)
	}
	slices.SortFunc(all, func(a, b hold) int { return a.from.Compare(b.from) })
	var gaps []float64
	for i := range all[1:] {
		gaps = append(gaps, float64(all[i+1].from.Sub(all[i].to))/1e3)
	}
	s = used.by(float64(len(gaps)))
	s.perSecond = float64(len(gaps)) / all[len(all)-1].from.Sub(all[0].from).Seconds()
	s.p50, s.p99 = quantile(gaps, 0.50), quantile(gaps, 0.99)
	return s, err
}
