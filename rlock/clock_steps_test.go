package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// If the clock of the server is set back, a holder keeps its lock, an Unlock hands the lock on at once,
// and tokens grow.
func TestUnlockAfterTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, of func(c *rlock.Client, name string) locker) {
		const watchdog = 600 * time.Millisecond
		s, ctx := onClock(t, of, watchdog), within(t)
		h, next := s.heir(ctx)
		s.set(-time.Hour)
		s.renewed(ctx, s.mine.Name(), watchdog)
		want(t, "held", must(h.IsHeld(ctx))(t), true)
		noError(t, h.Err())
		start := time.Now()
		noError(t, h.Unlock(ctx))
		second := comes(t, next)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("handed on after %v", took)
		}
		follows(t, second, h)
		noError(t, second.Unlock(ctx))
		s.free(s.mine.Name())
	})
}

// If the clock of the server is set forward, beyond the lease, the holder knows by its next renewal that
// the lock is lost, and the next caller gets it. Tokens grow, also when the clock is set back again.
func TestTheClockIsSetForwardBeyondTheLease(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, of func(c *rlock.Client, name string) locker) {
		const watchdog = 900 * time.Millisecond
		s, ctx := onClock(t, of, watchdog), within(t)
		h, next := s.heir(ctx)
		s.set(time.Hour)
		start := time.Now()
		<-h.Context().Done()
		if took := time.Since(start); took > watchdog/3+2*time.Second {
			t.Errorf("the holder knew after %v", took)
		}
		if err := h.Unlock(ctx); !errors.Is(err, rlock.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
		second := comes(t, next)
		follows(t, second, h)
		s.set(0)
		noError(t, second.Unlock(ctx))
		third := must(s.mine.LockFor(ctx, time.Minute))(t)
		follows(t, third, second)
		noError(t, third.Unlock(ctx))
		s.free(s.mine.Name())
	})
}

// A clockedStage is at a server whose clock can be set, with the lock of two processes.
type clockedStage struct {
	*stage
	set         func(time.Duration)
	mine, other locker
}

func onClock(
	t *testing.T, of func(c *rlock.Client, name string) locker, watchdog time.Duration,
) clockedStage {
	t.Helper()
	server, set := redistest.StartClocked(t)
	s, name := newStage(t, server.Client(t), server.Admin()), redistest.Name(t)
	return clockedStage{s, set, of(s.client(rlock.WithWatchdogTimeout(watchdog)), name), of(s.client(), name)}
}

// heir returns a hold, and where the one of the other process comes, which listens.
func (s clockedStage) heir(ctx context.Context) (h *rlock.Hold, heir <-chan *rlock.Hold) {
	s.Helper()
	h = must(s.mine.Lock(ctx))(s)
	heir = s.inherits(ctx, s.other)
	s.subscribed(ctx)
	return h, heir
}

// inherits returns where the hold of a waiter comes.
func (s *stage) inherits(ctx context.Context, lock locker) <-chan *rlock.Hold {
	came := make(chan *rlock.Hold, 1)
	go func() {
		h, err := lock.Lock(ctx)
		if err != nil {
			s.Errorf("the waiter: %v", err)
		}
		came <- h
	}()
	return came
}

// follows expects the token of a hold to be greater than that of the one before, if it has any.
func follows(t *testing.T, h, before *rlock.Hold) {
	t.Helper()
	if h.Token() < before.Token() || before.Token() > 0 && h.Token() == before.Token() {
		t.Errorf("token %d after %d", h.Token(), before.Token())
	}
}

// subscribed waits until a waiter listens.
func (s *stage) subscribed(ctx context.Context) {
	s.Helper()
	redistest.Until(s, "a waiter that listens", func() error {
		if len(must(s.look.PubSubChannels(ctx, "*").Result())(s)) == 0 {
			return errors.New("no channel has a subscriber")
		}
		return nil
	})
}

// renewed waits until a renewal has set the lease of a lock by the new clock.
func (s *stage) renewed(ctx context.Context, name string, lease time.Duration) {
	s.Helper()
	redistest.Until(s, "a renewal", func() error {
		if left := must(s.look.PTTL(ctx, name).Result())(s); left > lease {
			return fmt.Errorf("it lasts for %v", left)
		}
		return nil
	})
}

// If the clock of the server is set back, a dead waiter of Go blocks the queue of a fair lock for no
// longer than
// 30 s after a living waiter has renewed its place.
func TestADeadWaiterAfterTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	server, set := redistest.StartClocked(t)
	s := newFairStage(newStage(t, server.Client(t), server.Admin()))
	ctx := within(t)
	h := must(s.lock().LockFor(ctx, time.Hour))(t)
	dead := "5b5e7c7a-2a43-4a0c-9d2e-6f0b7c3d5a19:6842680076911175728"
	s.put(dead, 30*time.Second)
	alive := s.waits(s.lock(), 2)
	set(-time.Hour)
	left := func(owner string) time.Duration { return s.left(owner) + time.Hour }
	redistest.Until(t, "a place that is renewed", func() error {
		if left(s.waiting()[1]) > 31*time.Second {
			return errors.New("it is that of the old clock")
		}
		return nil
	})
	if left := left(dead); left > 31*time.Second {
		t.Errorf("the place of the dead waiter lasts %v", left)
	}
	alive.stop()
	if _, err := <-alive.hold, <-alive.err; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want Canceled", err)
	}
	noError(t, h.Unlock(ctx))
}
