package rlock_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// A failover while the replica has fallen behind. A lock that replicas have outlives it.
// One that they lack is given to a second holder, while the first one believes to have it, but with a
// greater token. WithMinReplicas does not grant a lock that no replica has.
func TestFailover(t *testing.T) {
	t.Parallel()
	group := redistest.StartSentinel(t)
	ctx := t.Context()
	client := func(opts ...rratelimiter.Option) *rlock.Client {
		limiters := rratelimiter.New(group.Client(t), opts...)
		t.Cleanup(func() { _ = limiters.Close() })
		return rlock.New(limiters, rlock.WithWatchdogTimeout(time.Minute))
	}
	plain, safe := client(), client(rratelimiter.WithMinReplicas(1, 500*time.Millisecond))
	outlives, twice, none := redistest.Name(t), redistest.Name(t), redistest.Name(t)

	replicated := must(safe.FencedLock(outlives).Lock(within(t)))(t)
	first := must(safe.FencedLock(twice).Lock(within(t)))(t)
	noError(t, first.Unlock(within(t)))

	// From now on the replica hears of nothing, and may not ask for it.
	master := group.Master.Admin()
	noError(t, master.Do(ctx, "ACL", "SETUSER", "default", "-psync", "-sync", "-replconf").Err())
	noError(t, master.Do(ctx, "CLIENT", "KILL", "TYPE", "replica").Err())
	second := must(plain.FencedLock(twice).Lock(within(t)))(t)
	h, err := safe.FencedLock(none).Lock(within(t))
	wantErr(t, "a lock that no replica has", err, rratelimiter.ErrNotReplicated)
	want(t, "its hold", h, nil)
	s := &env{T: t, look: master}
	s.free(none)

	group.Failover(t)
	s.look = group.Master.Admin()
	want(t, "the owner of what was replicated", s.owners(outlives)[replicated.Owner()], "1")
	noError(t, refusal(plain.Lock(outlives).TryLock(within(t), 0, 0)))
	wantErr(t, "Unlock without a replica", replicated.Unlock(within(t)), rratelimiter.ErrNotReplicated)
	s.free(outlives)

	third := must(client().FencedLock(twice).Lock(within(t)))(t)
	noError(t, second.Err())  // it knows only when it is renewed
	follows(t, third, second) // or no fence could tell them apart
	wantErr(t, "Unlock of a lost hold", second.Unlock(within(t)), rlock.ErrLost)
	want(t, "the second holder", s.owners(twice)[third.Owner()], "1")
	noError(t, third.Unlock(within(t)))

	s.free(none)
	took(plain.Lock(none).TryLock(within(t), 0, time.Second))(t)
}

// A place in the queue of a fair lock that a failover has brought back is removed when its process waits, or
// wants the lock. Otherwise it would stop the queue until it expires.
func TestFairPlaceThatAFailoverBroughtBack(t *testing.T) {
	onBothFair(t, func(s *fairEnv) {
		ctx := s.Context()
		locks := s.client()
		lock := locks.FairLock(s.name)
		var ended []string
		for range 2 {
			h := must(lock.Lock(ctx))(s)
			noError(s, h.Unlock(ctx))
			ended = append(ended, h.Owner())
		}
		s.tidied(locks)
		back := func(owner string) {
			score := float64(time.Now().Add(time.Hour).UnixMilli())
			noError(s, errOf(s.look.TxPipelined(ctx, func(tx redis.Pipeliner) error { // no look comes between
				tx.LPush(ctx, s.queue, owner)
				tx.ZAdd(ctx, s.scores, redis.Z{Score: score, Member: owner})
				return nil
			})))
		}
		back(ended[0])
		next := must(lock.Lock(ctx))(s)
		turn := s.waits(lock, 1)
		back(ended[1])
		noError(s, next.Unlock(ctx))
		noError(s, turn.held().Unlock(ctx))
		s.free()
	})
}

// An unlock that a failover has forgotten is made up for when its process wants the lock again. No other
// process ends the hold.
func TestUnlockThatAFailoverForgot(t *testing.T) {
	eachKindOfTwo(t, func(s *env, mine, other locker) {
		ctx := s.Context()
		h := must(mine.Lock(ctx))(s)
		noError(s, h.Unlock(ctx))
		s.tidied(s.locks)
		noError(s, s.look.HSet(ctx, mine.Name(), h.Owner(), 1).Err())
		noError(s, s.look.PExpire(ctx, mine.Name(), time.Hour).Err())
		noError(s, refusal(other.TryLock(ctx, 0, 0)))
		next := took(mine.TryLock(ctx, 0, 0))(s)
		noError(s, refusal(mine.TryLock(ctx, 0, 0)))
		noError(s, next.Unlock(ctx))
	})
}

// A planned failover, in which the clients talk to the old master for a while, leaves no lock held without
// a holder: its callers continue long before its lease expires.
func TestPlannedFailoverLeavesNoLockHeld(t *testing.T) {
	t.Parallel()
	group := redistest.StartSentinel(t)
	ctx, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	const names, processes = 3, 2
	var granted [names]atomic.Int64
	name := redistest.Name(t)
	for range processes {
		locks, _ := open(t, group.Client(t))
		for i := range names {
			all.Go(func() {
				for ctx.Err() == nil {
					h, err := locks.Lock(fmt.Sprint(name, i)).LockFor(ctx, time.Hour)
					if err != nil {
						continue // the failover is under way
					}
					granted[i].Add(1)
					_ = h.Unlock(ctx)
				}
			})
		}
	}
	all.Go(func() {
		defer end()
		for range 2 {
			time.Sleep(time.Second)
			group.Switch(t)
			for i := range granted {
				before := granted[i].Load()
				redistest.Eventually(t, "grants after the failover", func() bool {
					return granted[i].Load() >= before+10
				})
			}
		}
	})
	all.Wait()
}

// A replica that is behind gets what it lacks, and the lock is granted. An Unlock and a hand-over also
// wait for it.
func TestMinReplicas(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	limiters := rratelimiter.New(master.Client(t), rratelimiter.WithMinReplicas(1, 100*time.Millisecond))
	t.Cleanup(func() { _ = limiters.Close() })
	locks, name := rlock.New(limiters), redistest.Name(t)
	s := &env{T: t, look: master.Admin()}
	ctx := within(t)
	refused := func(err error) {
		t.Helper()
		wantErr(t, "without a replica", err, rratelimiter.ErrNotReplicated)
	}
	refused(errOf(locks.Lock(name).Lock(ctx)))
	s.free(name)

	replica := redistest.Start(t)
	follow := func(host, port string) {
		noError(t, replica.Admin().Do(ctx, "REPLICAOF", host, port).Err())
	}
	host, port := hostPort(master)
	follow(host, port)
	var h *rlock.Hold
	redistest.Until(t, "a replica", func() (err error) {
		h, err = locks.Lock(name).Lock(ctx)
		return err
	})
	want(t, "the replica's", must(replica.Admin().HGet(ctx, name, h.Owner()).Result())(t), "1")
	follow("NO", "ONE")
	redistest.Eventually(t, "no replica", func() bool {
		return must(master.Admin().Do(ctx, "WAIT", 1, 1).Int())(t) == 0
	})
	refused(h.Relock(ctx))
	noError(t, h.Err())
	refused(h.Unlock(ctx)) // and yet
	s.free(name)
	wantErr(t, "Unlock after the last one", h.Unlock(ctx), rlock.ErrNotHeld)
}
