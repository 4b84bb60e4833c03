package rlock_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// The specs here are what Redisson tests of its fair lock, as far as no other spec has it.
// docs/lock-cases.md has all of its cases.

// Places of Java behind callers of Go last as long as ever after these have won and left.
func TestFairPlacesOfJavaDoNotDrift(t *testing.T) {
	fairInBubble(t, func(s *fairEnv) {
		const wait, rounds = 5 * time.Minute, 20
		noError(s, s.look.HSet(s.Context(), s.name, "holder:1", 1).Err())
		java := func(i int) string { return fmt.Sprint("java:", i) }
		s.put(java(0), wait)
		for i := range rounds {
			turn := s.waits(s.lock(), 2)
			s.put(java(i+1), s.left(s.waiting()[1])+wait)
			if i%2 == 0 {
				turn.stop()
				synctest.Wait()
				lasted(s, "a place", s.left(java(i+1)), wait, 2*wait+time.Second)
				s.wins(java(i), wait)
				continue
			}
			s.wins(java(i), wait)
			noError(s, s.look.Del(s.Context(), s.name).Err())
			h := turn.held()
			lasted(s, "a place", s.left(java(i+1)), time.Second, wait+time.Second)
			noError(s, h.Unlock(s.Context()))
			noError(s, s.look.HSet(s.Context(), s.name, "holder:1", 1).Err())
		}
	})
}

// The name mapper is for all keys and channels of a fair lock.
func TestFairNameMapper(t *testing.T) {
	onBothFair(t, func(s *fairEnv) {
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

// While the server pauses writes, callers leave on time. After the pause they have left the queue, and the
// rest get their turns.
func TestFairLeavesAPausedServer(t *testing.T) {
	s := newFairEnv(onRedis(t))
	ctx := within(t)
	lock, other := s.lock(), s.lock()
	h := must(lock.LockFor(ctx, time.Hour))(t)
	first, second, third := s.waits(other, 1), s.waits(lock, 2), s.waits(other, 3)
	order := s.waiting()
	noError(t, s.look.Do(ctx, "CLIENT", "PAUSE", patience.Milliseconds(), "WRITE").Err())
	second.stop()
	wantErr(t, "Lock with a context that has ended", comes(t, second.err), context.Canceled)
	start := time.Now()
	const wait = 200 * time.Millisecond
	none, ok, err := other.TryLock(ctx, wait, 0)
	unanswered(t, none, ok, err)
	lasted(t, "it waited", time.Since(start), wait, patience)
	want(t, "waiting while it is paused", len(s.waiting()), 3)
	noError(t, s.look.Do(ctx, "CLIENT", "UNPAUSE").Err())
	redistest.Until(t, "the end of the place of the caller that left", func() error {
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
