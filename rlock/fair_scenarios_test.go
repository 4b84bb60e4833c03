package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// The specs here are what Redisson tests of its fair lock, as far as no other spec has it.
// docs/lock-cases.md has all of its cases.

// Many callers of several processes hold a lock one at a time, each as often as it asks.
func TestFairOneAtATime(t *testing.T) {
	t.Parallel()
	onBothFair(t, func(s *fairStage) {
		ctx := within(s)
		const processes, callers, rounds = 3, 5, 5
		holders := make(chan struct{}, 1)
		var all sync.WaitGroup
		for range processes {
			lock := s.lock()
			for range callers {
				all.Go(func() {
					for range rounds {
						h, err := lock.Lock(ctx)
						if err != nil {
							s.Error(err)
							return
						}
						select {
						case holders <- struct{}{}:
							<-holders
						default:
							s.Error("two holders")
						}
						if err := h.Unlock(ctx); err != nil {
							s.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		s.free()
	})
}

// Others see that a lock is held, and who holds it.
func TestFairIsLocked(t *testing.T) {
	t.Parallel()
	onBothFair(t, func(s *fairStage) {
		ctx := within(s)
		lock, other := s.lock(), s.lock()
		want(s, "locked", must(other.IsLocked(ctx))(s), false)
		want(s, "lasts", must(other.RemainTimeToLive(ctx))(s), rlock.NotLocked)
		h := must(lock.LockFor(ctx, time.Minute))(s)
		want(s, "locked", must(other.IsLocked(ctx))(s), true)
		left := must(other.RemainTimeToLive(ctx))(s)
		if left < time.Minute-patience || left > time.Minute {
			s.Errorf("it lasts %v, want a minute", left)
		}
		noError(s, h.Relock(ctx))
		noError(s, h.Unlock(ctx))
		want(s, "held", must(h.IsHeld(ctx))(s), true)
		noError(s, h.Unlock(ctx))
		want(s, "locked", must(other.IsLocked(ctx))(s), false)
		want(s, "held", must(h.IsHeld(ctx))(s), false)
	})
}

// A lease ends by itself, and the next caller has the lock then. The first one is told.
func TestFairLeaseEnds(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
		ctx := s.Context()
		lock := s.lock()
		h := must(lock.LockFor(ctx, 2*time.Second))(s)
		start := time.Now()
		next := s.waits(lock, 1).held()
		if waited := time.Since(start); waited > 3*time.Second {
			s.Errorf("it waited for %v, want 2s", waited)
		}
		if err := h.Unlock(ctx); !errors.Is(err, rlock.ErrLost) {
			s.Errorf("Unlock: %v, want ErrLost", err)
		}
		want(s, "held", must(next.IsHeld(ctx))(s), true)
		noError(s, next.Unlock(ctx))
	})
}

// Places last as long as ever after callers have left, won and died.
func TestFairPlacesDoNotDrift(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
		ctx := s.Context()
		lock := s.lock()
		dies, die := s.mortal()
		h := must(lock.LockFor(ctx, time.Hour))(s)
		for i := range 8 {
			if i%2 == 0 {
				s.waits(lock, i+1).stop()
				s.waits(lock, i+1)
			} else {
				s.waits(dies, i+1)
			}
			_, ok, err := lock.TryLock(ctx, time.Second, 0)
			noError(s, err)
			want(s, "taken", ok, false)
			synctest.Wait()
		}
		die()
		noError(s, h.Unlock(ctx))
		time.Sleep(35 * time.Second)
		s.waits(s.lock(), len(s.waiting())+1)
		for _, owner := range s.waiting() {
			if left := s.left(owner); left > 30*time.Second {
				s.Errorf("a place lasts %v, want at most 30s", left)
			}
		}
	})
}

// A fair lock serves in order on a cluster, through clients of several nodes.
func TestFairOnACluster(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: redistest.StartCluster(t).Addrs})
	t.Cleanup(func() { _ = rdb.Close() })
	s := newFairStage(newStage(t, rdb, rdb))
	ctx := within(t)
	one, other := s.lock(), s.lock()
	h := must(one.Lock(ctx))(t)
	var turns []chan *rlock.Hold
	for i, lock := range []*rlock.FairLock{one, other, one} {
		turn := make(chan *rlock.Hold, 1)
		turns = append(turns, turn)
		go func() {
			h, err := lock.Lock(ctx)
			if err != nil {
				t.Error(err)
			}
			turn <- h
		}()
		redistest.Until(t, "a place in the queue", func() error {
			if len(s.waiting()) <= i {
				return errors.New("it is not in the queue")
			}
			return nil
		})
	}
	for _, turn := range turns {
		noError(t, h.Unlock(ctx))
		h = <-turn
	}
	noError(t, h.Unlock(ctx))
	want(t, "waiting", len(s.waiting()), 0)
}

// Callers that never unlock are followed in their order, each when the lease of the one before
// is over.
func TestFairLeasesEndInOrder(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
		const callers, lease, wait = 8, time.Second, 10 * time.Second
		processes := []*rlock.FairLock{s.lock(), s.lock()}
		start := time.Now()
		took(processes[0].TryLock(s.Context(), wait, lease))(s)
		var turns []*fairTurn
		for i := range callers - 1 {
			turns = append(turns, s.starts(i+1, func(ctx context.Context) (*rlock.Hold, error) {
				h, _, err := processes[i%2].TryLock(ctx, wait, lease)
				return h, err
			}))
		}
		order := s.waiting()
		for i, next := range turns {
			h := next.held()
			if h == nil {
				s.Fatalf("number %d was refused after %v", i, time.Since(start))
			}
			want(s, "owner", h.Owner(), order[i])
		}
		const least = (callers - 1) * lease
		if waited := time.Since(start); waited < least || waited > least+lease {
			s.Errorf("the last one has waited for %v, want %v", waited, least)
		}
	})
}

// A caller whose wait is over does not stand in the way of the next single attempt.
func TestFairTryLockAfterAWait(t *testing.T) {
	t.Parallel()
	onBothFair(t, func(s *fairStage) {
		ctx := within(s)
		lock, other := s.lock(), s.lock()
		h := took(lock.TryLock(ctx, 0, 0))(s)
		if _, ok, err := other.TryLock(ctx, 20*time.Millisecond, 0); ok || err != nil {
			s.Errorf("TryLock: %v, %v; want false", ok, err)
		}
		s.gone()
		noError(s, h.Unlock(ctx))
		noError(s, took(other.TryLock(ctx, 0, 0))(s).Unlock(ctx))
		s.free()
	})
}

// The name mapper is for all keys and channels of a fair lock.
func TestFairNameMapper(t *testing.T) {
	t.Parallel()
	onBothFair(t, func(s *fairStage) {
		ctx := within(s)
		limiters := rratelimiter.New(s.rdb, rratelimiter.WithNameMapper(func(name string) string {
			return map[string]string{"orders": s.name}[name]
		}))
		s.Cleanup(func() { _ = limiters.Close() })
		lock := rlock.New(limiters).FairLock("orders")
		h := must(lock.LockFor(ctx, time.Hour))(s)
		want(s, "count", must(s.look.HGet(ctx, s.name, h.Owner()).Result())(s), "1")
		next := s.waits(lock, 1) // in the queue of the mapped name, and on its channel
		want(s, "scores", must(s.look.ZCard(ctx, s.scores).Result())(s), 1)
		want(s, "keys", must(s.look.DBSize(ctx).Result())(s), 3)
		noError(s, h.Unlock(ctx))
		noError(s, next.held().Unlock(ctx))
		want(s, "locked", must(lock.IsLocked(ctx))(s), false)
		s.free()
	})
}

// While the server lets nobody write, callers leave on time. When it does again, they are gone
// from the queue, and the others have their turns.
func TestFairLeavesAPausedServer(t *testing.T) {
	t.Parallel()
	s := newFairStage(onRedis(t))
	ctx := within(t)
	lock, other := s.lock(), s.lock()
	h := must(lock.LockFor(ctx, time.Hour))(t)
	first, second, third := s.waits(other, 1), s.waits(lock, 2), s.waits(other, 3)
	order := s.waiting()
	noError(t, s.look.Do(ctx, "CLIENT", "PAUSE", patience.Milliseconds(), "WRITE").Err())
	second.stop()
	if err := comes(t, second.err); !errors.Is(err, context.Canceled) {
		t.Errorf("Lock with a context that has ended: %v", err)
	}
	start := time.Now()
	const wait = 200 * time.Millisecond
	none, ok, err := other.TryLock(ctx, wait, 0)
	unanswered(t, none, ok, err)
	if waited := time.Since(start); waited < wait {
		t.Errorf("it waited for %v, want %v", waited, wait)
	}
	want(t, "waiting while it is paused", len(s.waiting()), 3)
	noError(t, s.look.Do(ctx, "CLIENT", "UNPAUSE").Err())
	redistest.Until(t, "that those are gone that have left", func() error {
		if queue := s.waiting(); !slices.Equal(queue, []string{order[0], order[2]}) {
			return fmt.Errorf("%v, of %v", queue, order)
		}
		return nil
	})
	noError(t, h.Unlock(ctx))
	for _, next := range []*fairTurn{first, third} {
		noError(t, next.held().Unlock(ctx))
	}
	s.free()
}
