package rlock_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// The specs here are of messages: which owner is notified, and what happens without messages.

// A caller that drops dead owners notifies the next one.
func TestFairNewCallerNotifiesTheNext(t *testing.T) {
	onBothFair(t, func(s *fairEnv) {
		ctx := within(s)
		s.put("java:1", -time.Second)
		s.put("java:2", time.Hour)
		message := s.listens("java:2")
		noError(s, refusal(s.lock().TryLock(ctx, 0, 0)))
		want(s, "message", message(), "0")
	})
}

// A head of another process that does not take the lock is notified again: it may have missed the message,
// or have come to the head as another left.
func TestFairHeadIsNotifiedAgain(t *testing.T) {
	fairInBubble(t, func(s *fairEnv) {
		s.put("java:1", time.Hour)
		message := s.listens("java:1")
		s.waits(s.lock(), 2)
		start := time.Now()
		want(s, "message", message(), "0")
		lasted(s, "it was notified", time.Since(start), 0, 2*time.Second)
	})
}

// A caller whose turn comes before its subscription is there asks when it is.
func TestFairTurnBeforeTheSubscription(t *testing.T) {
	fairInBubble(t, func(s *fairEnv) {
		ctx := s.Context()
		lock := s.lock()
		h := must(lock.Lock(ctx))(s)
		first := s.waits(lock, 1)
		gate := make(chan struct{})
		s.deny(func(command string, _ ...string) bool {
			if command == "SUBSCRIBE" {
				<-gate
			}
			return false
		})
		second := s.env.waits(ctx, lock)
		first.stop()
		synctest.Wait()
		noError(s, h.Unlock(ctx)) // the second does not hear it
		start := time.Now()
		close(gate)
		noError(s, (<-second).Unlock(ctx))
		want(s, "waited", time.Since(start), 0)
	})
}

// A caller that leaves while the lock is held wakes no other.
func TestFairCallerThatLeavesWakesNoOther(t *testing.T) {
	fairInBubble(t, func(s *fairEnv) {
		ctx := s.Context()
		lock := s.lock()
		h := must(lock.Lock(ctx))(s)
		first := s.waits(lock, 1)
		s.put("java:1", time.Hour)
		message := s.listens("java:1")
		first.stop()
		synctest.Wait()
		noError(s, s.look.Publish(ctx, s.channel+":java:1", "end").Err())
		want(s, "message", message(), "end")
		noError(s, h.Unlock(ctx))
	})
}

// Waiters get the lock when the lease of a dead holder expires, and after a DEL, which sends no message
// (I8, I10).
func TestFairHolderDies(t *testing.T) {
	fairInBubble(t, func(s *fairEnv) {
		ctx := s.Context()
		lock := s.lock()
		noError(s, s.look.HSet(ctx, s.name, "java:1", 1).Err())
		noError(s, s.look.PExpire(ctx, s.name, 5*time.Second).Err())
		start := time.Now()
		first, second := s.waits(lock, 1), s.waits(lock, 2)
		first.held()
		lasted(s, "it waited", time.Since(start), 4*time.Second, 6*time.Second)
		noError(s, s.look.Del(ctx, s.name).Err())
		start = time.Now()
		noError(s, second.held().Unlock(ctx))
		lasted(s, "it waited", time.Since(start), 0, 10*time.Second)
	})
}

// Callers are served without pub/sub.
func TestFairWithoutMessages(t *testing.T) {
	fairInBubble(t, func(s *fairEnv) {
		ctx := s.Context()
		s.deny(func(command string, _ ...string) bool { return command == "SUBSCRIBE" })
		lock := s.lock()
		h := must(lock.Lock(ctx))(s)
		next := s.env.waits(ctx, lock)
		time.Sleep(5 * time.Second)
		noError(s, h.Unlock(ctx))
		start := time.Now()
		noError(s, (<-next).Unlock(ctx))
		lasted(s, "it waited", time.Since(start), 0, 10*time.Second)
	})
}
