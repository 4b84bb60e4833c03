package rlock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// Callers of several processes get the lock in the order in which they asked.
func TestFairOrder(t *testing.T) {
	onBothFair(t, func(s *fairEnv) {
		ctx := within(s)
		processes := []*rlock.FairLock{s.lock(), s.lock(), s.lock()}
		h := must(processes[0].Lock(ctx))(s)
		var turns []*fairTurn
		for i := range 9 {
			turns = append(turns, s.waits(processes[i%3], i+1))
		}
		order := s.waiting()
		for i, next := range turns {
			noError(s, h.Unlock(ctx))
			h = next.held()
			want(s, "owner", h.Owner(), order[i])
			want(s, "queue", fmt.Sprint(s.waiting()), fmt.Sprint(order[i+1:]))
			want(s, "scores", must(s.look.ZCard(ctx, s.scores).Result())(s), int64(len(order[i+1:])))
		}
		noError(s, h.Unlock(ctx))
		s.free()
	})
}

// A single attempt is refused while a caller waits, and leaves nothing behind (I5).
func TestFairTryLockDoesNotOvertake(t *testing.T) {
	onBothFair(t, func(s *fairEnv) {
		ctx := within(s)
		lock := s.lock()
		s.put("java:1", time.Hour)
		for range 2 {
			if h, ok, err := lock.TryLock(ctx, 0, 0); h != nil || ok || err != nil {
				s.Fatalf("TryLock: %v, %v, %v; want false", h, ok, err)
			}
		}
		want(s, "waiting", len(s.waiting()), 1)
		want(s, "forced", must(lock.ForceUnlock(ctx))(s), false)
	})
}

// A caller whose wait has ended, or whose context ends, leaves the queue, and the order of the others
// stays.
func TestFairLeaves(t *testing.T) {
	onBothFair(t, func(s *fairEnv) {
		ctx := within(s)
		lock := s.lock()
		h := must(lock.Lock(ctx))(s)
		if other, ok, err := lock.TryLock(ctx, 20*time.Millisecond, 0); other != nil || ok || err != nil {
			s.Errorf("TryLock: %v, %v, %v; want false", other, ok, err)
		}
		s.gone()
		first, second, third := s.waits(lock, 1), s.waits(lock, 2), s.waits(lock, 3)
		second.stop()
		wantErr(s, "Lock with a context that has ended", <-second.err, context.Canceled)
		s.inTurn(h, first, third)
		noError(s, took(lock.TryLock(ctx, 0, 0))(s).Unlock(ctx)) // callers that have left do not delay it
	})
}

// A head that leaves while the lock is free notifies the next owner; Java does not (I10).
func TestFairCallerThatLeavesNotifiesTheNext(t *testing.T) {
	onBothFair(t, func(s *fairEnv) {
		ctx := within(s)
		lock := s.lock()
		h := must(lock.LockFor(ctx, time.Hour))(s)
		first := s.waits(lock, 1)
		s.put("java:1", time.Hour)
		message := s.listens("java:1")
		noError(s, s.look.Del(ctx, s.name).Err()) // without a message
		first.stop()
		if got := <-first.hold; got != nil { // it has asked once more as it began to hear
			noError(s, got.Unlock(ctx))
		}
		want(s, "message", message(), "0")
		_ = h.Unlock(ctx)
	})
}

// A closed Client leaves the queue.
func TestFairCloseLeaves(t *testing.T) {
	onBothFair(t, func(s *fairEnv) {
		ctx := within(s)
		h := must(s.lock().Lock(ctx))(s)
		locks, end := open(s, s.rdb)
		first := s.waits(locks.FairLock(s.name), 1)
		second := s.waits(s.lock(), 2)
		noError(s, end())
		wantErr(s, "Lock of a closed Client", <-first.err, rratelimiter.ErrClosed)
		redistest.Eventually(s, "one waiter", func() bool { return len(s.waiting()) == 1 })
		s.inTurn(h, second)
	})
}

// Unlock of a deleted lock returns an error, unlike Java's (I7), and still notifies the next owner.
func TestFairUnlockOfWhatIsGone(t *testing.T) {
	onBothFair(t, func(s *fairEnv) {
		ctx := within(s)
		lock := s.lock()
		h := must(lock.LockFor(ctx, time.Hour))(s)
		next := s.waits(lock, 1)
		noError(s, s.look.Del(ctx, s.name).Err())
		wantErr(s, "Unlock", h.Unlock(ctx), rlock.ErrLost)
		noError(s, next.held().Unlock(ctx))
	})
}
