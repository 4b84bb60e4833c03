package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// third is how often a hold is renewed by default.
const third = 10 * time.Second

// A hold is renewed each third of its lease, as long as it is held: by one request, and by none
// after the Unlock.
func TestRenewal(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		ctx, name := s.Context(), redistest.Name(s)
		h := must(s.locks.Lock(name).Lock(ctx))(s)
		time.Sleep(third + time.Second) // the first one shows Redis the script
		var calls atomic.Int64
		s.rdb.AddHook(counter{&calls})
		for i := range int64(100) {
			time.Sleep(third)
			want(s, "renewals", calls.Load(), i+1)
			if left := must(s.look.PTTL(ctx, name).Result())(s); left != 29*time.Second {
				s.Fatalf("the lease lasts %v a second after the renewal", left)
			}
		}
		noError(s, h.Err())
		noError(s, h.Unlock(ctx))
		time.Sleep(time.Second) // in which the latch is removed
		calls.Store(0)
		time.Sleep(10 * third)
		want(s, "requests after the unlock", calls.Load(), 0)
	})
}

// Three hundred holds take three script calls each third of a lease, though they were not taken
// at one time, and none is lost.
func TestManyHoldsAreRenewed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		const locks, batch, rounds = 300, 100, 4
		holds := make([]*rlock.Hold, locks)
		name := redistest.Name(s)
		for i := range holds {
			holds[i] = must(s.locks.Lock(fmt.Sprint(name, i)).Lock(s.Context()))(s)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(third + time.Second) // the first calls show Redis the script
		var calls atomic.Int64
		s.rdb.AddHook(counter{&calls})
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

// Ten thousand holds outlive their lease, with far fewer script calls than holds, though they
// were not taken at one time.
func TestTenThousandHolds(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	const (
		locks, callers = 10_000, 8
		lease          = 6 * time.Second
	)
	client := s.client(rlock.WithWatchdogTimeout(lease))
	ctx, name := t.Context(), redistest.Name(t)
	holds := make([]*rlock.Hold, locks)
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := caller; i < locks; i += callers {
				var err error
				if holds[i], err = client.Lock(fmt.Sprint(name, i)).Lock(ctx); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	before, start := s.scripts(), time.Now()
	time.Sleep(lease + time.Second)
	if locked := must(s.look.DBSize(t.Context()).Result())(t); locked != locks {
		t.Errorf("%d locks are held of %d", locked, locks)
	}
	for _, h := range holds {
		noError(t, h.Err())
	}
	calls, thirds := s.scripts()-before, int64(time.Since(start)/(lease/3))+1
	t.Logf("%d script calls in %v", calls, time.Since(start))
	if calls > thirds*locks/10 {
		t.Errorf("%d script calls in %d thirds of a lease", calls, thirds)
	}
}

// A hold knows at its next renewal that somebody else has let go of it, or has it. It does not
// touch the lock of the other.
func TestAHoldThatIsTakenAway(t *testing.T) {
	t.Parallel()
	for what, take := range map[string]func(s *stage, l *rlock.Lock) error{
		"ForceUnlock": func(s *stage, l *rlock.Lock) error {
			ok, err := l.ForceUnlock(s.Context())
			want(s, "ForceUnlock", ok, true)
			return err
		},
		"DEL": func(s *stage, l *rlock.Lock) error { return s.look.Del(s.Context(), l.Name()).Err() },
		"another owner": func(s *stage, l *rlock.Lock) error {
			return errors.Join(s.look.Del(s.Context(), l.Name()).Err(),
				s.look.HSet(s.Context(), l.Name(), "java:1", 1).Err())
		},
		"another type": func(s *stage, l *rlock.Lock) error {
			return s.look.Set(s.Context(), l.Name(), "text", 0).Err()
		},
		"FLUSHALL": func(s *stage, _ *rlock.Lock) error { return s.look.FlushAll(s.Context()).Err() },
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(s *stage) {
				ctx := s.Context()
				lock := s.locks.Lock(redistest.Name(s))
				h := must(lock.Lock(ctx))(s)
				beside := must(s.locks.Lock(lock.Name() + "2").Lock(ctx))(s)
				noError(s, take(s, lock))
				noError(s, h.Err()) // nobody has told it
				start := time.Now()
				<-h.Context().Done()
				if after := time.Since(start); after > third {
					s.Errorf("it was told after %v", after)
				}
				for what, err := range map[string]error{"cause": context.Cause(h.Context()), "Err": h.Err(),
					"Unlock": h.Unlock(ctx), "Relock": h.Relock(ctx)} {
					if !errors.Is(err, rlock.ErrLost) || !errors.Is(err, rlock.ErrNotHeld) {
						s.Errorf("%s: %v, want ErrLost", what, err)
					}
				}
				before := s.keys()
				var calls atomic.Int64
				s.rdb.AddHook(counter{&calls})
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

// keys returns all keys but latches, as a text.
func (s *stage) keys() string {
	s.Helper()
	var all []string
	for _, key := range must(s.look.Keys(s.Context(), "*").Result())(s) {
		if !strings.HasPrefix(key, "redisson_unlock_latch") {
			all = append(all, key)
		}
	}
	return fmt.Sprint(all)
}

// A failing is a hook that makes what is sent fail while it is on.
type failing struct {
	on    *atomic.Bool
	times *atomic.Int64 // how often it has
}

// DialHook is that of a redis.Hook.
func (failing) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook is that of a redis.Hook.
func (f failing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if f.on.Load() {
			f.times.Add(1)
			cmd.SetErr(errAway)
			return errAway
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook is that of a redis.Hook.
func (f failing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if f.on.Load() {
			f.times.Add(1)
			for _, cmd := range cmds {
				cmd.SetErr(errAway)
			}
			return errAway
		}
		return next(ctx, cmds)
	}
}

var errAway = errors.New("the network is away")

// While Redis cannot be reached, or says nothing, a hold ends to the moment when its lease has
// run out, counted from the last renewal that was confirmed.
func TestRedisIsAway(t *testing.T) {
	t.Parallel()
	for what, away := range map[string]func(rdb redis.UniversalClient) (back func()){
		"silent": func(rdb redis.UniversalClient) func() { return frozen(rdb)() },
		"failing": func(rdb redis.UniversalClient) func() {
			on := new(atomic.Bool)
			on.Store(true)
			rdb.AddHook(failing{on, new(atomic.Int64)})
			return func() { on.Store(false) }
		},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(s *stage) {
				ctx, name := s.Context(), redistest.Name(s)
				start := time.Now()
				h := must(s.locks.Lock(name).Lock(ctx))(s)
				time.Sleep(5*third + time.Second)
				back := away(s.rdb)
				<-h.Context().Done()
				want(s, "when it ended", time.Since(start), 5*third+30*time.Second)
				if cause := context.Cause(h.Context()); !errors.Is(cause, rlock.ErrLost) {
					s.Errorf("cause %v", cause)
				}
				want(s, "owners", len(s.owners(name)), 0)
				back()
				h = must(s.locks.Lock(name).Lock(ctx))(s)
				noError(s, h.Unlock(ctx))
			})
		})
	}
}

// A hold survives if Redis is back before its lease has run out, and is renewed soon then.
func TestRedisIsBackInTime(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		ctx, name := s.Context(), redistest.Name(s)
		h := must(s.locks.Lock(name).Lock(ctx))(s)
		other := must(s.locks.Lock(name+"2").LockFor(ctx, time.Hour))(s)
		time.Sleep(third + time.Second)
		on := new(atomic.Bool)
		on.Store(true)
		away := failing{on, new(atomic.Int64)}
		s.rdb.AddHook(away)
		time.Sleep(27 * time.Second)
		on.Store(false)
		if n := away.times.Load(); n < 15 || n > 20 {
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
func TestALateRenewal(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
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

// A hold with a lease of its own is not renewed. It ends on time, by itself, and the next one
// has the lock then without being told.
func TestALeaseOfOnesOwn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		ctx, name := s.Context(), redistest.Name(s)
		start := time.Now()
		h := must(s.locks.Lock(name).LockFor(ctx, 42*time.Second+999*time.Microsecond))(s)
		next := s.waits(ctx, name)
		<-h.Context().Done()
		want(s, "lease", time.Since(start), 42*time.Second)
		if err := context.Cause(h.Context()); !errors.Is(err, rlock.ErrLost) {
			s.Errorf("cause %v", err)
		}
		held := comes(s, next)
		if waited := time.Since(start); waited > 42*time.Second+10*time.Millisecond {
			s.Errorf("the next one has it after %v", waited)
		}
		if err := h.Unlock(ctx); !errors.Is(err, rlock.ErrLost) {
			s.Errorf("Unlock: %v", err)
		}
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
		if err := h.Err(); !errors.Is(err, rlock.ErrLost) {
			s.Errorf("after its lease: %v", err)
		}
	})
}

// A Relock that is on its way when the lease runs out does not hold the lock for nobody.
func TestARelockThatIsTooLate(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{time.Minute, 0} {
		t.Run(fmt.Sprint(lease), func(t *testing.T) {
			inBubble(t, func(s *stage) {
				ctx, name := s.Context(), redistest.Name(s)
				freeze := frozen(s.rdb)
				h := took(s.locks.Lock(name).TryLock(ctx, 0, lease))(s)
				thaw := freeze()
				again := make(chan error, 1)
				go func() { again <- h.Relock(ctx) }()
				time.Sleep(5 * time.Second)
				noError(s, s.look.Persist(ctx, name).Err()) // Redis's clock is slower than ours
				<-h.Context().Done()
				thaw()
				if err := <-again; !errors.Is(err, rlock.ErrLost) {
					s.Errorf("Relock: %v", err)
				}
				time.Sleep(2 * time.Second)
				want(s, "owners", len(s.owners(name)), 0)
			})
		})
	}
}

// The server comes back without its data. Holds know at their next renewal, and a lock that
// somebody else took meanwhile stays theirs.
func TestRestart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newStage(t, server.Client(t), server.Admin())
	ctx := within(t)
	locks := s.client(rlock.WithWatchdogTimeout(3 * time.Second))
	name := redistest.Name(t)
	h := must(locks.FencedLock(name).Lock(ctx))(t)
	h2 := must(locks.Lock(name+"2").LockFor(ctx, time.Second))(t)
	server.Restart(t)
	other := must(s.locks.Lock(name).Lock(ctx))(t)
	for _, h := range []*rlock.Hold{h, h2} {
		select {
		case <-h.Context().Done():
		case <-ctx.Done():
			t.Fatal("the hold goes on")
		}
		if err := h.Unlock(ctx); !errors.Is(err, rlock.ErrLost) {
			t.Errorf("Unlock: %v", err)
		}
	}
	want(t, "the other one", s.owners(name)[other.Owner()], "1")
	noError(t, other.Unlock(ctx))
	// The restart has lost the token as well, but the next one is greater.
	again := must(locks.FencedLock(name).Lock(ctx))(t)
	if again.Token() <= h.Token() {
		t.Errorf("token %d after the restart, and %d before", again.Token(), h.Token())
	}
	noError(t, again.Unlock(ctx))
}

// Redis takes longer to reply than the lease lasts: nobody gets a hold that is over.
func TestALeaseShorterThanTheReply(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		ctx, name := s.Context(), redistest.Name(s)
		freeze := frozen(s.rdb)
		thaw := freeze()
		time.AfterFunc(31*time.Second, thaw)
		start := time.Now()
		h, err := s.locks.Lock(name+"2").LockFor(ctx, 10*time.Second)
		if h != nil || !errors.Is(err, rlock.ErrLost) {
			s.Errorf("after %v: %v, %v; want ErrLost", time.Since(start), h, err)
		}
	})
}
