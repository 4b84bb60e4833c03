package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// A fair lock that nobody waits for is in Redis as Java writes it, and gone after Unlock.
func TestFairOnTheWire(t *testing.T) {
	t.Parallel()
	onBothFair(t, func(s *fairStage) {
		ctx := within(s)
		h := must(s.locks.FairLock(s.name).Lock(ctx))(s)
		want(s, "count", must(s.look.HGet(ctx, s.name, h.Owner()).Result())(s), "1")
		noError(s, h.Relock(ctx))
		want(s, "count", must(h.HoldCount(ctx))(s), 2)
		noError(s, h.Unlock(ctx))
		want(s, "IsHeld", must(h.IsHeld(ctx))(s), true)
		want(s, "keys", must(s.look.Exists(ctx, s.queue, s.scores).Result())(s), 0)
		noError(s, h.Unlock(ctx))
		s.free()
		if err := h.Unlock(ctx); !errors.Is(err, rlock.ErrNotHeld) {
			s.Errorf("one Unlock too many: %v", err)
		}
		redistest.Until(s, "no latch", func() error {
			if keys := must(s.look.Keys(ctx, "*").Result())(s); len(keys) > 0 {
				return errors.New(keys[0])
			}
			return nil
		})
	})
}

// Callers of several processes get the lock in the order in which they asked.
func TestFairOrder(t *testing.T) {
	t.Parallel()
	onBothFair(t, func(s *fairStage) {
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

// A single attempt is refused as long as somebody waits, and leaves nothing behind (I5).
func TestFairTryLockDoesNotOvertake(t *testing.T) {
	t.Parallel()
	onBothFair(t, func(s *fairStage) {
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

// A caller whose wait is over, or whose context ends, leaves the queue, and the order of
// the others stays.
func TestFairLeaves(t *testing.T) {
	t.Parallel()
	onBothFair(t, func(s *fairStage) {
		ctx := within(s)
		lock := s.lock()
		h := must(lock.Lock(ctx))(s)
		if other, ok, err := lock.TryLock(ctx, 20*time.Millisecond, 0); other != nil || ok || err != nil {
			s.Errorf("TryLock: %v, %v, %v; want false", other, ok, err)
		}
		s.gone()
		first, second, third := s.waits(lock, 1), s.waits(lock, 2), s.waits(lock, 3)
		second.stop()
		if err := <-second.err; !errors.Is(err, context.Canceled) {
			s.Errorf("Lock with a context that has ended: %v", err)
		}
		s.inTurn(h, first, third)
	})
}

// The head that leaves while the lock is free tells the next one, as Java does not (I10).
func TestFairLeaverTellsTheNext(t *testing.T) {
	t.Parallel()
	onBothFair(t, func(s *fairStage) {
		ctx := within(s)
		lock := s.lock()
		h := must(lock.LockFor(ctx, time.Hour))(s)
		first := s.waits(lock, 1)
		s.put("java:1", time.Hour)
		sub := s.look.Subscribe(ctx, s.channel+":java:1")
		defer sub.Close()
		must(sub.Receive(ctx))(s)
		noError(s, s.look.Del(ctx, s.name).Err()) // nobody is told
		first.stop()
		if got := <-first.hold; got != nil { // it has asked once more as it began to hear
			noError(s, got.Unlock(ctx))
		}
		message := must(sub.ReceiveMessage(ctx))(s)
		want(s, "message", message.Payload, "0")
		_ = h.Unlock(ctx)
	})
}

// A closed Client leaves the queue.
func TestFairCloseLeaves(t *testing.T) {
	t.Parallel()
	onBothFair(t, func(s *fairStage) {
		ctx := within(s)
		h := must(s.lock().Lock(ctx))(s)
		limiters, locks := s.fairClient()
		first := s.waits(locks.FairLock(s.name), 1)
		second := s.waits(s.lock(), 2)
		noError(s, limiters.Close())
		if err := <-first.err; !errors.Is(err, rratelimiter.ErrClosed) {
			s.Errorf("Lock of a closed Client: %v", err)
		}
		redistest.Until(s, "one waiter", func() error {
			if len(s.waiting()) != 1 {
				return errors.New("both are in the queue")
			}
			return nil
		})
		s.inTurn(h, second)
	})
}

// An Unlock of a lock that is gone is an error, though Java's is none (I7). The next one
// is told all the same.
func TestFairUnlockOfWhatIsGone(t *testing.T) {
	t.Parallel()
	onBothFair(t, func(s *fairStage) {
		ctx := within(s)
		lock := s.lock()
		h := must(lock.LockFor(ctx, time.Hour))(s)
		next := s.waits(lock, 1)
		noError(s, s.look.Del(ctx, s.name).Err())
		if err := h.Unlock(ctx); !errors.Is(err, rlock.ErrLost) {
			s.Errorf("Unlock: %v, want ErrLost", err)
		}
		noError(s, next.held().Unlock(ctx))
	})
}

// ForceUnlock gives the lock to the one that waits first.
func TestFairForceUnlock(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
		ctx := s.Context()
		lock := s.lock()
		h := must(lock.LockFor(ctx, time.Hour))(s)
		next := s.waits(lock, 1)
		start := time.Now()
		want(s, "forced", must(lock.ForceUnlock(ctx))(s), true)
		noError(s, next.held().Unlock(ctx))
		want(s, "waited", time.Since(start), 0)
		if err := h.Unlock(ctx); !errors.Is(err, rlock.ErrLost) {
			s.Errorf("Unlock: %v, want ErrLost", err)
		}
	})
}
