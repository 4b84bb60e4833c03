package rlock_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// The specs here are in fake time. An owner java:N is one that the spec plays.

// A dead head of the queue blocks all other callers until its place ends, and no longer. They do not spin
// meanwhile (I9, I10).
func TestFairDeadHead(t *testing.T) {
	t.Parallel()
	for _, place := range []time.Duration{1500 * time.Millisecond, 5 * time.Minute} {
		t.Run(fmt.Sprint(place), func(t *testing.T) {
			fairInBubble(t, func(s *fairEnv) {
				start := time.Now()
				s.put("java:1", place)
				scripts := s.count()
				h := s.waits(s.lock(), 2).held()
				lasted(s, "it waited", time.Since(start), place, place+150*time.Millisecond)
				if n := scripts.Load(); n > 20+int64(place/time.Second) {
					s.Errorf("%d scripts, want one a second", n)
				}
				noError(s, h.Unlock(s.Context()))
				s.free()
			})
		})
	}
}

// A caller that waits while the lock is held asks for nothing but its place.
func TestFairSleeps(t *testing.T) {
	fairInBubble(t, func(s *fairEnv) {
		ctx := s.Context()
		h := must(s.lock().Lock(ctx))(s)
		lock := s.lock()
		turns := []*fairTurn{s.waits(lock, 1)}
		synctest.Wait()
		scripts := s.count()
		turns = append(turns, s.waits(lock, 2), s.waits(lock, 3))
		synctest.Wait()
		want(s, "scripts of two that come", scripts.Load(), 2) // the first has asked again when it heard
		time.Sleep(10 * time.Minute)
		if n := scripts.Load(); n > 125 {
			s.Errorf("%d scripts in 10m, want one for the places and a renewal every 10s", n)
		}
		s.inTurn(h, turns...)
	})
}

// A process that dies with many callers in the queue holds up the others for 30 s, not for 30 s each.
func TestFairDeadProcess(t *testing.T) {
	fairInBubble(t, func(s *fairEnv) {
		ctx := s.Context()
		h := must(s.lock().Lock(ctx))(s)
		dies, die := s.mortal()
		lives := s.lock()
		var turns []*fairTurn
		for i := range 10 {
			if i%2 == 0 {
				s.waits(dies, i+1)
			} else {
				turns = append(turns, s.waits(lives, i+1))
			}
		}
		time.Sleep(time.Minute)
		die()
		start := time.Now()
		s.inTurn(h, turns...)
		lasted(s, "the dead ones held up the others", time.Since(start), 19*time.Second, 31*time.Second)
	})
}

// A caller behind one of Java keeps its place when that one wins and takes what it had added off all
// scores, however long it has waited (I4, I10).
func TestFairBehindJava(t *testing.T) {
	fairInBubble(t, func(s *fairEnv) {
		ctx := s.Context()
		lock := s.lock()
		h := must(lock.LockFor(ctx, time.Hour))(s)
		noError(s, s.look.PExpire(ctx, s.name, time.Second).Err())
		s.put("java:1", 5*time.Minute) // it has added 5 minutes
		s.put("java:2", 10*time.Minute)
		noError(s, s.look.PExpire(ctx, s.name, time.Hour).Err())
		next := s.waits(lock, 3)
		owner := s.waiting()[2]
		time.Sleep(285 * time.Second) // between two looks, for wins is not one step
		s.wins("java:1", 5*time.Minute)
		time.Sleep(time.Second)
		s.wins("java:2", 5*time.Minute)
		want(s, "its place ends", s.left(owner) > 10*time.Second, true)
		_, _, _ = s.lock().TryLock(ctx, 0, 0) // drops those whose place has ended
		want(s, "queue", fmt.Sprint(s.waiting()), fmt.Sprint([]string{owner}))
		noError(s, s.look.Del(ctx, s.name).Err())
		noError(s, next.held().Unlock(ctx))
		_ = h.Unlock(ctx)
	})
}

// A caller that comes behind one of Java has a place that outlasts that one's win, and so have those behind
// it: at once, even if that one has waited for long, and also if that one waits for longer than is usual.
func TestFairComesBehindJava(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ left, added, until, least time.Duration }{
		{10 * time.Second, 5 * time.Minute, 0, 29 * time.Second},
		{time.Hour, time.Hour, 15 * time.Second, 10 * time.Second},
	} {
		t.Run(fmt.Sprint(tc.added), func(t *testing.T) {
			fairInBubble(t, func(s *fairEnv) {
				one, other := s.lock(), s.lock()
				noError(s, s.look.HSet(s.Context(), s.name, "holder:1", 1).Err())
				s.put("java:1", tc.left)
				s.waits(one, 2)
				s.waits(other, 3)
				time.Sleep(tc.until)
				s.wins("java:1", tc.added)
				for _, owner := range s.waiting() {
					lasted(s, "a place", s.left(owner), tc.least, 30*time.Second)
				}
			})
		})
	}
}

// A caller that asks after the sorted set was lost is in the queue once.
func TestFairQueuesOnce(t *testing.T) {
	onBothFair(t, func(s *fairEnv) {
		ctx := within(s)
		lock := s.lock()
		h := must(lock.Lock(ctx))(s)
		s.put("java:1", time.Hour)
		next := s.waits(lock, 2)
		owner := s.waiting()[1]
		noError(s, s.look.ZRem(ctx, s.scores, owner).Err())
		noError(s, s.look.Publish(ctx, s.channel+":"+owner, "0").Err())
		redistest.Until(s, "a score", func() error { return s.look.ZScore(ctx, s.scores, owner).Err() })
		want(s, "waiting", fmt.Sprint(s.waiting()), fmt.Sprint([]string{"java:1", owner}))
		next.stop()
		<-next.err
		noError(s, h.Unlock(ctx))
	})
}

// Callers are back in the queue within 10 s after it was lost, or a part of it. They keep their order if
// that was the sorted set (I11a).
func TestFairQueueIsLost(t *testing.T) {
	t.Parallel()
	for what, tc := range map[string]struct {
		list, scores bool
		callers      int
	}{"all": {true, true, 1}, "list": {true, false, 1}, "sorted set": {false, true, 3}} {
		t.Run(what, func(t *testing.T) {
			fairInBubble(t, func(s *fairEnv) {
				ctx, lock := s.Context(), s.lock()
				h := must(lock.Lock(ctx))(s)
				var turns []*fairTurn
				for i := range tc.callers {
					turns = append(turns, s.waits(lock, i+1))
				}
				order := fmt.Sprint(s.waiting())
				for key, lost := range map[string]bool{s.queue: tc.list, s.scores: tc.scores} {
					if lost {
						noError(s, s.look.Del(ctx, key).Err())
					}
				}
				time.Sleep(11 * time.Second)
				want(s, "queue", fmt.Sprint(s.waiting()), order)
				start := time.Now()
				s.inTurn(h, turns...)
				want(s, "waited", time.Since(start), 0)
			})
		})
	}
}

// An owner in the queue without a score, for which Java's callers wait for ever, is dropped (I11a).
func TestFairOwnerWithoutScore(t *testing.T) {
	onBothFair(t, func(s *fairEnv) {
		ctx := within(s)
		for range 3 {
			noError(s, s.look.RPush(ctx, s.queue, "java:1").Err())
		}
		h := took(s.lock().TryLock(ctx, 0, 0))(s)
		want(s, "waiting", len(s.waiting()), 0)
		noError(s, h.Unlock(ctx))
	})
}

// Callers do not spin if Redis refuses to renew their places.
func TestFairPlacesAreNotRenewed(t *testing.T) {
	fairInBubble(t, func(s *fairEnv) {
		lock := s.lock()
		h := must(lock.Lock(s.Context()))(s)
		for i := range 3 {
			s.waits(lock, i+1)
		}
		s.deny(func(command string, args ...string) bool { return command == "EVALSHA" && args[1] == "4" })
		scripts := s.count()
		time.Sleep(time.Minute)
		if n := scripts.Load(); n > 6*5+5 {
			s.Errorf("%d scripts in a minute, want one of each caller and a renewal every 10s", n)
		}
		noError(s, h.Unlock(s.Context()))
	})
}

// A bounded wait has a place that ends soon after it.
func TestFairPlaceOfABoundedWait(t *testing.T) {
	fairInBubble(t, func(s *fairEnv) {
		ctx := s.Context()
		lock := s.lock()
		h := must(lock.Lock(ctx))(s)
		start := time.Now()
		ended := async(func() error { return refusal(lock.TryLock(ctx, 3*time.Second, 0)) })
		time.Sleep(time.Second)
		lasted(s, "its place", s.left(s.waiting()[0]), 2*time.Second, 3*time.Second)
		noError(s, <-ended)
		want(s, "waited", time.Since(start), 3*time.Second)
		noError(s, h.Unlock(ctx))
		synctest.Wait()
		s.free()
	})
}
