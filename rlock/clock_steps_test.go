package rlock_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// If the clock of the server is set back, a holder keeps its lock, an Unlock hands the lock on at once, and
// tokens grow.
func TestUnlockAfterTheClockIsSetBack(t *testing.T) {
	eachKind(t, func(t *testing.T, of kind) {
		const watchdog = 3 * time.Second
		s, ctx := onClock(t, of, watchdog), within(t)
		h, next := s.successor(ctx)
		s.set(-time.Hour)
		s.renewed(ctx, s.mine.Name(), watchdog)
		want(t, "held", must(h.IsHeld(ctx))(t), true)
		noError(t, h.Err())
		start := time.Now()
		noError(t, h.Unlock(ctx))
		second := comes(t, next)
		lasted(t, "handed on", time.Since(start), 0, 5*time.Second)
		follows(t, second, h)
		noError(t, second.Unlock(ctx))
		s.free(s.mine.Name())
	})
}

// If the clock of the server is set forward, beyond the lease, the holder knows by its next renewal that
// the lock is lost, and the next caller gets it. Tokens grow, also when the clock is set back again.
func TestTheClockIsSetForwardBeyondTheLease(t *testing.T) {
	eachKind(t, func(t *testing.T, of kind) {
		const watchdog = 900 * time.Millisecond
		s, ctx := onClock(t, of, watchdog), within(t)
		h, next := s.successor(ctx)
		s.set(time.Hour)
		start := time.Now()
		<-h.Context().Done()
		lasted(t, "the holder knew", time.Since(start), 0, watchdog/3+2*time.Second)
		wantErr(t, "Unlock", h.Unlock(ctx), rlock.ErrLost)
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

// A clockedEnv is at a server whose clock can be set, with the lock of two processes.
type clockedEnv struct {
	*env
	set         func(time.Duration)
	mine, other locker
}

func onClock(t *testing.T, of kind, watchdog time.Duration) clockedEnv {
	t.Helper()
	t.Parallel()
	server, set := redistest.StartClocked(t)
	s, name := newEnv(t, server.Client(t), server.Admin()), redistest.Name(t)
	return clockedEnv{s, set, of(s.client(rlock.WithWatchdogTimeout(watchdog)), name), of(s.client(), name)}
}

// successor returns a hold, and where the one of the other process comes, which listens.
func (s clockedEnv) successor(ctx context.Context) (h *rlock.Hold, successor <-chan *rlock.Hold) {
	s.Helper()
	h = must(s.mine.Lock(ctx))(s)
	successor = s.starts(ctx, s.other)
	s.subscribed(ctx)
	return h, successor
}

// follows expects the token of a hold to be greater than that of the one before, if it has any.
func follows(t *testing.T, h, before *rlock.Hold) {
	t.Helper()
	if h.Token() < before.Token() || before.Token() > 0 && h.Token() == before.Token() {
		t.Errorf("token %d after %d", h.Token(), before.Token())
	}
}

// subscribed waits until a waiter listens.
func (s *env) subscribed(ctx context.Context) {
	s.Helper()
	redistest.Eventually(s, "a waiter that listens", func() bool {
		return len(must(s.look.PubSubChannels(ctx, "*").Result())(s)) > 0
	})
}

// renewed waits until a renewal has set the lease of a lock by the new clock.
func (s *env) renewed(ctx context.Context, name string, lease time.Duration) {
	s.Helper()
	redistest.Eventually(s, "a renewal", func() bool {
		return must(s.look.PTTL(ctx, name).Result())(s) <= lease
	})
}

// If the clock of the server is set forward, beyond all places in the queue of a fair lock, its waiters
// have places by the new clock within a renewal, and each of them gets the lock. They keep their order only
// if they renew in that order: the first renewal drops places ahead of it that have ended.
func TestFairWaitersAreServedAfterTheClockIsSetForward(t *testing.T) {
	t.Parallel()
	redistest.Thorough(t)
	server, set := redistest.StartClocked(t)
	s := newFairEnv(newEnv(t, server.Client(t), server.Admin()))
	h := must(s.lock().LockFor(within(t), 24*time.Hour))(t)
	of := map[string]*fairTurn{}
	for n := range 4 {
		turn := s.waits(s.lock(), n+1)
		of[s.waiting()[n]] = turn
	}
	set(time.Hour)
	redistest.Until(t, "places by the new clock", func() error {
		for owner := range of {
			score := s.look.ZScore(s.Context(), s.scores, owner).Val()
			if left := time.Until(time.UnixMilli(int64(score))); left < time.Hour {
				return fmt.Errorf("the place of %s lasts for %v", owner, left)
			}
		}
		return nil
	})
	var turns []*fairTurn
	for _, owner := range s.waiting() {
		turns = append(turns, of[owner])
	}
	if len(turns) != len(of) || slices.Contains(turns, nil) {
		t.Fatalf("%q are in the queue, and %d wait", s.waiting(), len(of))
	}
	s.inTurn(h, turns...)
}

// If the clock of the server is set back, a dead waiter of Go blocks the queue of a fair lock for no longer
// than 30 s after a living waiter has renewed its place.
func TestDeadWaiterAfterTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	server, set := redistest.StartClocked(t)
	s := newFairEnv(newEnv(t, server.Client(t), server.Admin()))
	ctx := within(t)
	h := must(s.lock().LockFor(ctx, time.Hour))(t)
	dead := "5b5e7c7a-2a43-4a0c-9d2e-6f0b7c3d5a19:6842680076911175728"
	s.put(dead, 30*time.Second)
	alive := s.waits(s.lock(), 2)
	set(-time.Hour)
	left := func(owner string) time.Duration { return s.left(owner) + time.Hour }
	redistest.Eventually(t, "a place that is renewed", func() bool {
		return left(s.waiting()[1]) <= 31*time.Second
	})
	lasted(t, "the place of the dead waiter", left(dead), -time.Hour, 31*time.Second)
	alive.stop()
	wantErr(t, "Lock", <-alive.err, context.Canceled)
	noError(t, h.Unlock(ctx))
}
