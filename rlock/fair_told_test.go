package rlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/rlock"
)

// The specs here are of messages: who is told, who is not, and what is done without.

// A caller that finds dead ones before the next tells that one.
func TestFairComerTellsTheNext(t *testing.T) {
	t.Parallel()
	onBothFair(t, func(s *fairStage) {
		ctx := within(s)
		s.put("java:1", -time.Second)
		s.put("java:2", time.Hour)
		sub := s.look.Subscribe(ctx, s.channel+":java:2")
		defer sub.Close()
		must(sub.Receive(ctx))(s)
		_, ok, err := s.lock().TryLock(ctx, 0, 0)
		noError(s, err)
		want(s, "taken", ok, false)
		want(s, "message", must(sub.ReceiveMessage(ctx))(s).Payload, "0")
	})
}

// A head of another process that does not take the lock is told again: it may have missed
// the message, or have come to the head as another left.
func TestFairHeadIsToldAgain(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
		ctx := s.Context()
		s.put("java:1", time.Hour)
		sub := s.look.Subscribe(ctx, s.channel+":java:1")
		defer sub.Close()
		must(sub.Receive(ctx))(s)
		s.waits(s.lock(), 2)
		start := time.Now()
		want(s, "message", must(sub.ReceiveMessage(ctx))(s).Payload, "0")
		if waited := time.Since(start); waited > 2*time.Second {
			s.Errorf("it was told after %v, want 1s", waited)
		}
	})
}

// A caller whose turn comes before its subscription is there asks when it is.
func TestFairTurnBeforeTheSubscription(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
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
		second := make(chan *rlock.Hold, 1)
		go func() {
			h, _ := lock.Lock(ctx)
			second <- h
		}()
		synctest.Wait()
		first.stop()
		synctest.Wait()
		noError(s, h.Unlock(ctx)) // the second does not hear it
		start := time.Now()
		close(gate)
		noError(s, (<-second).Unlock(ctx))
		want(s, "waited", time.Since(start), 0)
	})
}

// A caller that leaves while somebody has the lock wakes nobody.
func TestFairLeaverWakesNobody(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
		ctx := s.Context()
		lock := s.lock()
		h := must(lock.Lock(ctx))(s)
		first := s.waits(lock, 1)
		s.put("java:1", time.Hour)
		channel := s.channel + ":java:1"
		sub := s.look.Subscribe(ctx, channel)
		defer sub.Close()
		must(sub.Receive(ctx))(s)
		first.stop()
		synctest.Wait()
		noError(s, s.look.Publish(ctx, channel, "end").Err())
		want(s, "message", must(sub.ReceiveMessage(ctx))(s).Payload, "end")
		noError(s, h.Unlock(ctx))
	})
}

// Who waits gets the lock when the lease of a dead holder has run out, and when it was
// deleted, of which nobody is told (I8, I10).
func TestFairHolderDies(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
		ctx := s.Context()
		lock := s.lock()
		noError(s, s.look.HSet(ctx, s.name, "java:1", 1).Err())
		noError(s, s.look.PExpire(ctx, s.name, 5*time.Second).Err())
		start := time.Now()
		first, second := s.waits(lock, 1), s.waits(lock, 2)
		first.held()
		if waited := time.Since(start); waited < 4*time.Second || waited > 6*time.Second {
			s.Errorf("it waited for %v, want 5s", waited)
		}
		noError(s, s.look.Del(ctx, s.name).Err())
		start = time.Now()
		noError(s, second.held().Unlock(ctx))
		if waited := time.Since(start); waited > 10*time.Second {
			s.Errorf("it waited for %v, want at most 10s", waited)
		}
	})
}

// Callers are served without pub/sub.
func TestFairWithoutMessages(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
		ctx := s.Context()
		s.deny(func(command string, _ ...string) bool { return command == "SUBSCRIBE" })
		lock := s.lock()
		h := must(lock.Lock(ctx))(s)
		next := make(chan *rlock.Hold, 1)
		go func() {
			h, _ := lock.Lock(ctx)
			next <- h
		}()
		time.Sleep(5 * time.Second)
		noError(s, h.Unlock(ctx))
		start := time.Now()
		noError(s, (<-next).Unlock(ctx))
		if waited := time.Since(start); waited > 10*time.Second {
			s.Errorf("it waited for %v, want at most 10s", waited)
		}
	})
}

// A caller asks as soon as the place of a dead head ends.
func TestFairAsksInTime(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
		const place = 1500 * time.Millisecond
		start := time.Now()
		s.put("java:1", place)
		noError(s, s.waits(s.lock(), 2).held().Unlock(s.Context()))
		if waited := time.Since(start); waited < place || waited > place+150*time.Millisecond {
			s.Errorf("it waited for %v, want %v", waited, place)
		}
	})
}
