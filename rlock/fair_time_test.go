package rlock_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// The specs here are in fake time. An owner java:N is one that the spec plays.

// A dead head of the queue keeps others out until its place ends, and they do not spin
// meanwhile (I9, I10).
func TestFairDeadHead(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
		ctx := s.Context()
		s.put("java:1", 5*time.Minute)
		scripts := s.count()
		start := time.Now()
		next := s.waits(s.lock(), 2)
		h := next.held()
		const most = 5*time.Minute + 2*time.Second
		if waited := time.Since(start); waited < 5*time.Minute-time.Second || waited > most {
			s.Errorf("it waited for %v, want 5m", waited)
		}
		if n := scripts(); n > 320 {
			s.Errorf("%d scripts in 5m, want one a second", n)
		}
		noError(s, h.Unlock(ctx))
		s.free()
	})
}

// A caller that waits while the lock is held asks for nothing but its place.
func TestFairSleeps(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
		ctx := s.Context()
		h := must(s.lock().Lock(ctx))(s)
		lock := s.lock()
		turns := []*fairTurn{s.waits(lock, 1)}
		synctest.Wait()
		scripts := s.count()
		turns = append(turns, s.waits(lock, 2), s.waits(lock, 3))
		synctest.Wait()
		want(s, "scripts of two that come", scripts(), 2) // the first has asked again when it heard
		time.Sleep(10 * time.Minute)
		if n := scripts(); n > 65 {
			s.Errorf("%d scripts in 10m, want one every 10s", n)
		}
		s.inTurn(h, turns...)
	})
}

// Callers of several processes keep their places while the lock is held for long (I10).
func TestFairPlacesOutlastTheHolder(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
		ctx := s.Context()
		one, other := s.lock(), s.lock()
		h := must(one.Lock(ctx))(s)
		var turns []*fairTurn
		for i, lock := range []*rlock.FairLock{one, other, one, other, other, one} {
			turns = append(turns, s.waits(lock, i+1))
		}
		order := fmt.Sprint(s.waiting())
		for range 10 {
			time.Sleep(7 * time.Minute)
			want(s, "order", fmt.Sprint(s.waiting()), order)
			for _, owner := range s.waiting() {
				if left := s.left(owner); left < 19*time.Second || left > 30*time.Second {
					s.Errorf("a place lasts %v, want 20s to 30s", left)
				}
			}
			_, _, _ = s.lock().TryLock(ctx, 0, 0) // drops those whose place has ended
		}
		s.inTurn(h, turns...)
	})
}

// A process that dies with many callers in the queue holds up the others for 30 s, not for
// 30 s each.
func TestFairDeadProcess(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
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
		if waited := time.Since(start); waited < 19*time.Second || waited > 31*time.Second {
			s.Errorf("the dead ones held up the others for %v, want 20s to 30s", waited)
		}
	})
}

// A caller behind one of Java keeps its place when that one wins and takes what it had
// added off all scores, however long it has waited (I4, I10).
func TestFairBehindJava(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
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

// A caller that comes behind one of Java has a place at once that outlasts that one's win,
// even if that one has waited for long, and so have those behind it.
func TestFairComesBehindJava(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
		ctx := s.Context()
		one, other := s.lock(), s.lock()
		noError(s, s.look.HSet(ctx, s.name, "holder:1", 1).Err())
		s.put("java:1", 10*time.Second) // of 5 minutes
		s.waits(one, 2)
		s.waits(other, 3)
		s.wins("java:1", 5*time.Minute)
		for _, owner := range s.waiting() {
			if left := s.left(owner); left < 29*time.Second || left > 30*time.Second {
				s.Errorf("a place lasts %v, want 30s", left)
			}
		}
	})
}

// A caller keeps its place behind one of Java that waits for longer than is usual.
func TestFairBehindALongWait(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
		ctx := s.Context()
		noError(s, s.look.HSet(ctx, s.name, "holder:1", 1).Err())
		s.put("java:1", time.Hour)
		s.waits(s.lock(), 2)
		time.Sleep(15 * time.Second)
		s.wins("java:1", time.Hour)
		if left := s.left(s.waiting()[0]); left < 10*time.Second || left > 30*time.Second {
			s.Errorf("its place lasts %v, want 10s to 30s", left)
		}
	})
}

// A caller that asks after the sorted set was lost is in the queue once.
func TestFairQueuesOnce(t *testing.T) {
	t.Parallel()
	onBothFair(t, func(s *fairStage) {
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

// A caller behind so many others that a look does not reach it sleeps all the same.
func TestFairFarBack(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
		ctx := s.Context()
		noError(s, s.look.HSet(ctx, s.name, "holder:1", 1).Err())
		s.putMany()
		scripts := s.count()
		s.waits(s.lock(), farBack+1)
		time.Sleep(time.Minute)
		if n := scripts(); n > 10 {
			s.Errorf("%d scripts in a minute, want one every 10s", n)
		}
	})
}

// A caller whose place was taken away queues again, within 10 s.
func TestFairQueuesAgain(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
		ctx := s.Context()
		lock := s.lock()
		h := must(lock.Lock(ctx))(s)
		next := s.waits(lock, 1)
		owner := s.waiting()[0]
		noError(s, s.look.Del(ctx, s.queue, s.scores).Err())
		time.Sleep(11 * time.Second)
		want(s, "queue", fmt.Sprint(s.waiting()), fmt.Sprint([]string{owner}))
		s.inTurn(h, next)
	})
}

// Callers keep their order when the sorted set is lost (I11a).
func TestFairScoresAreLost(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
		ctx := s.Context()
		lock := s.lock()
		h := must(lock.Lock(ctx))(s)
		turns := []*fairTurn{s.waits(lock, 1), s.waits(lock, 2), s.waits(lock, 3)}
		order := fmt.Sprint(s.waiting())
		noError(s, s.look.Del(ctx, s.scores).Err())
		time.Sleep(11 * time.Second)
		want(s, "queue", fmt.Sprint(s.waiting()), order)
		s.inTurn(h, turns...)
	})
}

// An owner in the queue without a score, for which Java's callers wait for ever, is
// dropped (I11a).
func TestFairOwnerWithoutScore(t *testing.T) {
	t.Parallel()
	onBothFair(t, func(s *fairStage) {
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
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
		lock := s.lock()
		h := must(lock.Lock(s.Context()))(s)
		for i := range 3 {
			s.waits(lock, i+1)
		}
		s.deny(func(command string, args ...string) bool { return command == "EVALSHA" && args[1] == "4" })
		scripts := s.count()
		time.Sleep(time.Minute)
		if n := scripts(); n > 6*4+5 {
			s.Errorf("%d scripts in a minute, want one of each caller every 10s", n)
		}
		noError(s, h.Unlock(s.Context()))
	})
}

// A bounded wait has a place that ends soon after it.
func TestFairPlaceOfABoundedWait(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
		ctx := s.Context()
		lock := s.lock()
		h := must(lock.Lock(ctx))(s)
		start := time.Now()
		ended := make(chan bool, 1)
		go func() {
			_, ok, err := lock.TryLock(ctx, 3*time.Second, 0)
			noError(s, err)
			ended <- ok
		}()
		time.Sleep(time.Second)
		if left := s.left(s.waiting()[0]); left < 2*time.Second || left > 3*time.Second {
			s.Errorf("its place lasts %v, want 3s", left)
		}
		want(s, "taken", <-ended, false)
		want(s, "waited", time.Since(start), 3*time.Second)
		noError(s, h.Unlock(ctx))
		synctest.Wait()
		s.free()
	})
}
