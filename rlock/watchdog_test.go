package rlock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// third is how often a hold is renewed by default.
const third = 10 * time.Second

// A hold is renewed each third of its lease, as long as it is held: by one request, and by none after the
// Unlock.
func TestRenewal(t *testing.T) {
	inBubble(t, func(s *env) {
		ctx, name := s.Context(), redistest.Name(s)
		h := must(s.locks.Lock(name).Lock(ctx))(s)
		time.Sleep(third + time.Second) // the first one shows Redis the script
		calls := s.count()
		for i := range int64(100) {
			time.Sleep(third)
			want(s, "renewals", calls.Load(), i+1)
			if left := must(s.look.PTTL(ctx, name).Result())(s); left != 29*time.Second {
				s.Fatalf("the lease lasts %v a second after the renewal", left)
			}
		}
		noError(s, h.Err())
		noError(s, h.Unlock(ctx))
		time.Sleep(time.Second) // in which the idempotency key is removed
		calls.Store(0)
		time.Sleep(10 * third)
		want(s, "requests after the unlock", calls.Load(), 0)
	})
}

// Three hundred holds take three script calls each third of a lease, though they were not taken at one
// time, and none is lost.
func TestManyHoldsAreRenewed(t *testing.T) {
	inBubble(t, func(s *env) {
		const locks, batch, rounds = 300, 100, 4
		holds := make([]*rlock.Hold, locks)
		name := redistest.Name(s)
		for i := range holds {
			holds[i] = must(s.locks.Lock(fmt.Sprint(name, i)).Lock(s.Context()))(s)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(third + time.Second) // the first calls show Redis the script
		calls := s.count()
		time.Sleep(rounds * third)
		want(s, "script calls", calls.Load(), rounds*locks/batch)
		for _, h := range holds {
			noError(s, h.Err())
		}
		want(s, "locks", must(s.look.DBSize(s.Context()).Result())(s), locks)
		for _, h := range holds[1:] {
			noError(s, h.Unlock(s.Context()))
		}
		time.Sleep(third)
		calls.Store(0)
		time.Sleep(rounds * third)
		want(s, "script calls for the one that is left", calls.Load(), rounds)
	})
}

// A hold notices at its next renewal that its lock was unlocked or has another owner, and leaves the lock
// of that owner alone.
func TestHoldNoticesItsLossAtARenewal(t *testing.T) {
	t.Parallel()
	for what, commands := range map[string][][]any{
		"ForceUnlock":   nil,
		"DEL":           {{"DEL", oneLock}},
		"another owner": {{"DEL", oneLock}, {"HSET", oneLock, "java:1", 1}},
		"another type":  {{"SET", oneLock, "text"}},
		"FLUSHALL":      {{"FLUSHALL"}},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(s *env) {
				ctx := s.Context()
				lock := s.locks.Lock(oneLock)
				h := must(lock.Lock(ctx))(s)
				beside := must(s.locks.Lock("beside").Lock(ctx))(s)
				s.sends(commands...)
				if commands == nil {
					want(s, what, must(lock.ForceUnlock(ctx))(s), true)
				}
				noError(s, h.Err()) // no renewal since
				start := time.Now()
				<-h.Context().Done()
				lasted(s, "it ended", time.Since(start), 0, third)
				for what, err := range map[string]error{"cause": context.Cause(h.Context()), "Err": h.Err(),
					"Unlock": h.Unlock(ctx), "Relock": h.Relock(ctx)} {
					wantErr(s, what, err, rlock.ErrLost)
					wantErr(s, what, err, rlock.ErrNotHeld)
				}
				before := s.keys()
				calls := s.count()
				time.Sleep(2*third + time.Second)
				want(s, "keys", s.keys(), before)
				if what != "FLUSHALL" {
					noError(s, beside.Err())
					want(s, "renewals of the other hold", calls.Load(), 2)
				}
			})
		})
	}
}

// keys returns all keys but idempotency keys, as a text.
func (s *env) keys() string {
	s.Helper()
	var all []string
	for _, key := range must(s.look.Keys(s.Context(), "*").Result())(s) {
		if !strings.HasPrefix(key, "redisson_unlock_latch") {
			all = append(all, key)
		}
	}
	return fmt.Sprint(all)
}

// While Redis cannot be reached, or says nothing, a hold ends to the moment when its lease has run out,
// counted from the last renewal that was confirmed.
func TestHoldEndsWithItsLeaseWithoutRedis(t *testing.T) {
	t.Parallel()
	for what, away := range map[string]func(rdb redis.UniversalClient) (back func()){
		"silent": func(rdb redis.UniversalClient) func() { return frozen(rdb)() },
		"failing": func(rdb redis.UniversalClient) (back func()) {
			_, back = fails(rdb)
			return back
		},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(s *env) {
				ctx, name := s.Context(), redistest.Name(s)
				start := time.Now()
				h := must(s.locks.Lock(name).Lock(ctx))(s)
				time.Sleep(5*third + time.Second)
				back := away(s.rdb)
				<-h.Context().Done()
				want(s, "when it ended", time.Since(start), 5*third+30*time.Second)
				wantErr(s, "cause", context.Cause(h.Context()), rlock.ErrLost)
				want(s, "owners", len(s.owners(name)), 0)
				back()
				h = must(s.locks.Lock(name).Lock(ctx))(s)
				noError(s, h.Unlock(ctx))
			})
		})
	}
}

// A hold survives if Redis is back before its lease has expired, and is renewed soon then.
func TestHoldSurvivesAShortOutage(t *testing.T) {
	inBubble(t, func(s *env) {
		ctx, name := s.Context(), redistest.Name(s)
		h := must(s.locks.Lock(name).Lock(ctx))(s)
		other := must(s.locks.Lock(name+"2").LockFor(ctx, time.Hour))(s)
		time.Sleep(third + time.Second)
		times, back := fails(s.rdb)
		time.Sleep(27 * time.Second)
		back()
		if n := times.Load(); n < 15 || n > 20 {
			s.Errorf("it was tried %d times in 18s, want once a second", n)
		}
		time.Sleep(1500 * time.Millisecond)
		if left := must(s.look.PTTL(ctx, name).Result())(s); left < 28*time.Second {
			s.Errorf("after Redis is back the lease lasts %v", left)
		}
		time.Sleep(10 * third)
		noError(s, h.Err())
		noError(s, h.Unlock(ctx))
		noError(s, other.Unlock(ctx))
	})
}

// A renewal that was carried out when the hold had ended, for its reply was late, is undone.
func TestLateRenewalIsUndone(t *testing.T) {
	inBubble(t, func(s *env) {
		ctx, name := s.Context(), redistest.Name(s)
		freeze := frozen(s.rdb)
		h := must(s.locks.Lock(name).Lock(ctx))(s)
		time.Sleep(third - time.Second)
		thaw := freeze()
		time.Sleep(20*time.Second + 500*time.Millisecond) // the renewal is on its way
		noError(s, s.look.Persist(ctx, name).Err())       // Redis's clock is slower than ours
		<-h.Context().Done()
		thaw()
		time.Sleep(2 * time.Second)
		want(s, "owners", len(s.owners(name)), 0)
	})
}

// A hold with a lease of its own is not renewed. It expires on time, and the next caller gets the lock then
// without a message.
func TestLeaseIsNotRenewed(t *testing.T) {
	inBubble(t, func(s *env) {
		ctx, name := s.Context(), redistest.Name(s)
		start := time.Now()
		h := must(s.locks.Lock(name).LockFor(ctx, 42*time.Second+999*time.Microsecond))(s)
		next := s.waits(ctx, s.locks.Lock(name))
		<-h.Context().Done()
		want(s, "lease", time.Since(start), 42*time.Second)
		wantErr(s, "cause", context.Cause(h.Context()), rlock.ErrLost)
		held := comes(s, next)
		lasted(s, "the next one has it", time.Since(start), 0, 42*time.Second+10*time.Millisecond)
		wantErr(s, "Unlock", h.Unlock(ctx), rlock.ErrLost)
		want(s, "the next one", s.owners(name)[held.Owner()], "1")
		noError(s, held.Unlock(ctx))

		h = must(s.locks.Lock(name).LockFor(ctx, time.Second))(s)
		time.Sleep(900 * time.Millisecond)
		noError(s, h.Relock(ctx)) // a new lease
		time.Sleep(900 * time.Millisecond)
		noError(s, h.Unlock(ctx)) // and one more
		time.Sleep(900 * time.Millisecond)
		noError(s, h.Err())
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		wantErr(s, "after its lease", h.Err(), rlock.ErrLost)
	})
}

// A Relock that arrives after the lease has expired does not leave the lock held without a holder.
func TestRelockAfterTheLeaseIsUndone(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{time.Minute, 0} {
		t.Run(fmt.Sprint(lease), func(t *testing.T) {
			inBubble(t, func(s *env) {
				ctx, name := s.Context(), redistest.Name(s)
				freeze := frozen(s.rdb)
				h := took(s.locks.Lock(name).TryLock(ctx, 0, lease))(s)
				thaw := freeze()
				again := async(func() error { return h.Relock(ctx) })
				time.Sleep(5 * time.Second)
				noError(s, s.look.Persist(ctx, name).Err()) // Redis's clock is slower than ours
				<-h.Context().Done()
				thaw()
				wantErr(s, "Relock", <-again, rlock.ErrLost)
				time.Sleep(2 * time.Second)
				want(s, "owners", len(s.owners(name)), 0)
			})
		})
	}
}

// The server restarts without its data. Holds notice at their next renewal, and a lock that another caller
// took meanwhile stays its own.
func TestRestart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newEnv(t, server.Client(t), server.Admin())
	ctx := within(t)
	locks := s.client(rlock.WithWatchdogTimeout(3 * time.Second))
	name := redistest.Name(t)
	h := must(locks.FencedLock(name).Lock(ctx))(t)
	h2 := must(locks.Lock(name+"2").LockFor(ctx, time.Second))(t)
	server.Restart(t)
	other := must(s.locks.Lock(name).Lock(ctx))(t)
	for _, h := range []*rlock.Hold{h, h2} {
		comes(t, h.Context().Done())
		wantErr(t, "Unlock", h.Unlock(ctx), rlock.ErrLost)
	}
	want(t, "the other one", s.owners(name)[other.Owner()], "1")
	noError(t, other.Unlock(ctx))
	// The restart has lost the token as well, but the next one is greater.
	again := must(locks.FencedLock(name).Lock(ctx))(t)
	follows(t, again, h)
	noError(t, again.Unlock(ctx))
}

// Redis takes longer to reply than the lease lasts: no caller gets an expired hold.
func TestLeaseShorterThanTheReply(t *testing.T) {
	inBubble(t, func(s *env) {
		ctx, name := s.Context(), redistest.Name(s)
		freeze := frozen(s.rdb)
		thaw := freeze()
		time.AfterFunc(31*time.Second, thaw)
		h, err := s.locks.Lock(name+"2").LockFor(ctx, 10*time.Second)
		wantErr(s, "LockFor", err, rlock.ErrLost)
		want(s, "its hold", h, nil)
	})
}
