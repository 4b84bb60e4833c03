package rlock_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// The specs here are what Redisson tests of its fair lock, as far as no other spec has it.

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
