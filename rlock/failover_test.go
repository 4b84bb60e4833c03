package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// What a failover does to locks when the replica has fallen behind. A lock that replicas have
// outlives it. One that they lack is given to a second holder, while the first one believes to
// have it, but with a greater token. WithMinReplicas does not grant a lock that no replica has.
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
	if h != nil || !errors.Is(err, rratelimiter.ErrNotReplicated) {
		t.Errorf("a lock that no replica has: %v, %v; want ErrNotReplicated", h, err)
	}
	s := &stage{T: t, look: master}
	s.free(none)

	group.Failover(t)
	s.look = group.Master.Admin()
	want(t, "the owner of what was replicated", s.owners(outlives)[replicated.Owner()], "1")
	_, ok, err := plain.Lock(outlives).TryLock(within(t), 0, 0)
	if ok || err != nil {
		t.Errorf("what was replicated is held: %v, %v", ok, err)
	}
	if err := replicated.Unlock(within(t)); !errors.Is(err, rratelimiter.ErrNotReplicated) {
		t.Errorf("Unlock without a replica: %v", err)
	}
	s.free(outlives)

	third := must(client().FencedLock(twice).Lock(within(t)))(t)
	noError(t, second.Err()) // it knows only when it is renewed
	if third.Token() <= second.Token() {
		t.Errorf("token %d after the failover, and %d before: no fence can tell them apart", third.Token(),
			second.Token())
	}
	if err := second.Unlock(within(t)); !errors.Is(err, rlock.ErrLost) {
		t.Errorf("Unlock of who has lost it: %v", err)
	}
	want(t, "the second holder", s.owners(twice)[third.Owner()], "1")
	noError(t, third.Unlock(within(t)))

	s.free(none)
	took(plain.Lock(none).TryLock(within(t), 0, time.Second))(t)
}

// An unlock that a failover has forgotten is made up for when its process wants the lock again. No
// other process ends the hold.
func TestAForgottenUnlock(t *testing.T) {
	t.Parallel()
	eachKindOfTwo(t, func(s *stage, mine, other locker) {
		ctx := s.Context()
		h := must(mine.Lock(ctx))(s)
		noError(s, h.Unlock(ctx))
		s.tidied(s.locks)
		noError(s, s.look.HSet(ctx, mine.Name(), h.Owner(), 1).Err())
		noError(s, s.look.PExpire(ctx, mine.Name(), time.Hour).Err())
		refuses := func(lock locker) {
			s.Helper()
			_, ok, err := lock.TryLock(ctx, 0, 0)
			noError(s, err)
			want(s, "granted", ok, false)
		}
		refuses(other)
		next := took(mine.TryLock(ctx, 0, 0))(s)
		refuses(mine)
		noError(s, next.Unlock(ctx))
	})
}

// A planned failover, in which the clients talk to the old master for a while, leaves no lock held
// by nobody: whoever uses it goes on long before its lease is over.
func TestPlannedFailover(t *testing.T) {
	t.Parallel()
	group := redistest.StartSentinel(t)
	ctx, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	const names, processes = 3, 2
	var granted [names]atomic.Int64
	name := redistest.Name(t)
	for range processes {
		limiters := rratelimiter.New(group.Client(t))
		t.Cleanup(func() { _ = limiters.Close() })
		locks := rlock.New(limiters)
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
				redistest.Until(t, "grants after the failover", func() error {
					if granted[i].Load() < before+10 {
						return errors.New("not yet")
					}
					return nil
				})
			}
		}
	})
	all.Wait()
}

// A replica that is behind gets what it lacks, and the lock is granted. An Unlock waits for it,
// too, and so does a hand-over.
func TestMinReplicas(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	limiters := rratelimiter.New(master.Client(t), rratelimiter.WithMinReplicas(1, 100*time.Millisecond))
	t.Cleanup(func() { _ = limiters.Close() })
	locks, name := rlock.New(limiters), redistest.Name(t)
	s := &stage{T: t, look: master.Admin()}
	ctx := within(t)
	refused := func(err error) {
		t.Helper()
		if !errors.Is(err, rratelimiter.ErrNotReplicated) {
			t.Errorf("%v, want ErrNotReplicated", err)
		}
	}
	_, err := locks.Lock(name).Lock(ctx)
	refused(err)
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
	redistest.Until(t, "no replica", func() error {
		if n := must(master.Admin().Do(ctx, "WAIT", 1, 1).Int())(t); n > 0 {
			return errors.New("there is one")
		}
		return nil
	})
	refused(h.Relock(ctx))
	noError(t, h.Err())
	refused(h.Unlock(ctx)) // and yet
	s.free(name)
	if err := h.Unlock(ctx); !errors.Is(err, rlock.ErrNotHeld) {
		t.Errorf("%v, want ErrNotHeld", err)
	}
}
