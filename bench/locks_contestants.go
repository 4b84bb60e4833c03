package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/redisson-go/rratelimiter/rlock"
)

// A locker waits until it has the lock called name, and returns what unlocks it.
type locker func(ctx context.Context, name string) (unlock func(context.Context) error, err error)

// A lockMaker makes the locker of one process. Its locks last for a lease, and who renews
// them does so each third of it.
type lockMaker func(s *scope, rdb *redis.Client, lease time.Duration) (locker, error)

// lockLease is Redisson's and this library's by default, and is given to all.
const lockLease = 30 * time.Second

// A lockEntrant is a lock that is measured.
type lockEntrant struct {
	name string
	in   lockTables
	made lockMaker // nil: Redisson
}

// lockTables are the tables that an entrant is in.
type lockTables int

const (
	inAlone lockTables = 1 << iota
	inCrowds
	inHeld
)

// ourLockName is the entrant that others are compared with, javaLockName is Redisson's.
const (
	ourLockName  = "this library, Lock"
	javaLockName = "Redisson, RLock"
)

// lockEntrants are all, in the order of the tables.
var lockEntrants = []lockEntrant{
	{ourLockName, inAlone | inCrowds | inHeld, newOurLock},
	{"this library, FencedLock", inAlone, newOurFenced},
	{"this library, FairLock", inAlone | inCrowds, newOurFair},
	{"bsm/redislock", inAlone, newRedislock(time.Millisecond)}, // alone it does not ask again
	{"bsm/redislock, each 1 ms", inCrowds, newRedislock(time.Millisecond)},
	{"bsm/redislock, each 100 ms", inCrowds, newRedislock(100 * time.Millisecond)},
	{"redsync", inAlone | inCrowds, newRedsync},
	{"rueidislock", inAlone | inCrowds | inHeld, newRueidislock},
	{javaLockName, inAlone | inCrowds | inHeld, nil},
}

// newOurLocks returns this library's locks.
func newOurLocks(s *scope, rdb *redis.Client, lease time.Duration) *rlock.Client {
	return rlock.New(s.client(rdb), rlock.WithWatchdogTimeout(lease))
}

// byHold returns the locker of one of this library's locks.
func byHold(lock func(ctx context.Context, name string) (*rlock.Hold, error)) locker {
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		hold, err := lock(ctx, name)
		if err != nil {
			return nil, err
		}
		return hold.Unlock, nil
	}
}

func newOurLock(s *scope, rdb *redis.Client, lease time.Duration) (locker, error) {
	locks := newOurLocks(s, rdb, lease)
	return byHold(func(ctx context.Context, name string) (*rlock.Hold, error) {
		return locks.Lock(name).Lock(ctx)
	}), nil
}

func newOurFenced(s *scope, rdb *redis.Client, lease time.Duration) (locker, error) {
	locks := newOurLocks(s, rdb, lease)
	return byHold(func(ctx context.Context, name string) (*rlock.Hold, error) {
		return locks.FencedLock(name).Lock(ctx)
	}), nil
}

func newOurFair(s *scope, rdb *redis.Client, lease time.Duration) (locker, error) {
	locks := newOurLocks(s, rdb, lease)
	return byHold(func(ctx context.Context, name string) (*rlock.Hold, error) {
		return locks.FairLock(name).Lock(ctx)
	}), nil
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
		if err := m.LockContext(ctx); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			_, err := m.UnlockContext(ctx)
			return err
		}, nil
	}, nil
}

// newRueidislock has a client of its own, to the same address, and the options that its
// page recommends for one server of Redis 7. A try may take longer than its default of
// 20 ms: on a busy machine some did, and those that waited were never told after that.
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
		if err != nil {
			return nil, err
		}
		return func(context.Context) error {
			cancel()
			return nil
		}, nil
	}, nil
}

// noLock is the locker of those who need none.
func noLock(context.Context, string) (func(context.Context) error, error) {
	return func(context.Context) error { return nil }, nil
}

// newNoLock has only the work of the holds measured.
func newNoLock(*scope, *redis.Client, time.Duration) (locker, error) { return noLock, nil }
