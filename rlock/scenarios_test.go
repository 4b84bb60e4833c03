package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// The specs here are what Redisson tests of its locks, as far as no other spec has it. docs/lock-cases.md
// has all of its cases.

// A locker is what all kinds of locks have.
type locker interface {
	Name() string
	Lock(ctx context.Context) (*rlock.Hold, error)
	LockFor(ctx context.Context, lease time.Duration) (*rlock.Hold, error)
	TryLock(ctx context.Context, wait, lease time.Duration) (*rlock.Hold, bool, error)
	ForceUnlock(ctx context.Context) (bool, error)
	IsLocked(ctx context.Context) (bool, error)
	RemainTimeToLive(ctx context.Context) (time.Duration, error)
}

// A kind returns the lock of that kind.
type kind func(c *rlock.Client, name string) locker

var kinds = map[string]kind{
	"Lock":       func(c *rlock.Client, name string) locker { return c.Lock(name) },
	"FencedLock": func(c *rlock.Client, name string) locker { return c.FencedLock(name) },
	"FairLock":   func(c *rlock.Client, name string) locker { return c.FairLock(name) },
}

// eachKind runs a spec with each kind of lock.
func eachKind(t *testing.T, spec func(t *testing.T, of kind)) {
	t.Helper()
	t.Parallel()
	for name, of := range kinds {
		t.Run(name, func(t *testing.T) { spec(t, of) })
	}
}

// eachKindInBubble runs a spec with a lock of each kind in fake time.
func eachKindInBubble(t *testing.T, spec func(s *env, lock locker)) {
	t.Helper()
	eachKind(t, func(t *testing.T, of kind) {
		inBubble(t, func(s *env) { spec(s, of(s.locks, redistest.Name(s))) })
	})
}

// eachKindOfTwo runs a spec with a lock of each kind, as two processes see it.
func eachKindOfTwo(t *testing.T, spec func(s *env, mine, other locker)) {
	t.Helper()
	eachKind(t, func(t *testing.T, of kind) {
		onBoth(t, func(s *env) {
			name := redistest.Name(s)
			spec(s, of(s.locks, name), of(s.client(), name))
		})
	})
}

// Locks of each kind: a lock has one holder, as often as that has locked it, and every process sees that.
func TestLocks(t *testing.T) {
	eachKind(t, func(t *testing.T, of kind) {
		tell(t, of, map[string]string{
			"a lock has at most one holder": "" +
				"b1 takes; b1 unlocks; a1 takes; a1 holds 1; b1 holds 0; a2 refused 0s; b2 refused 0s; " +
				"a sees locked; b sees locked; a1 relocks; a1 holds 2; b1 holds 0; a1 unlocks; a1 holds 1; " +
				"a2 refused 0s; b2 refused 0s; a sees locked; a1 unlocks; a1 holds 0; b1 holds 0; " +
				"a sees none; b sees none; b2 takes; b2 unlocks",
			"ForceUnlock is for any holder, whose Unlock is an error then and leaves the next one alone": "" +
				"a1 locks 1h; b1 forces yes; a sees none; b sees none; b1 forces no; b2 takes; a1 lost; " +
				"b2 holds 1; b2 unlocks",
			"ForceUnlock notifies a caller that waits": "" +
				"a1 locks 1h; a2 asks; now; a1 forces yes; a2 has; after 0s; a2 unlocks; a1 lost",
			"RemainTimeToLive is the rest of a lease, after an Unlock of several, or of the watchdog": "" +
				"a lasts -2; a1 locks 1h; a lasts 59m40s..1h; b lasts 59m40s..1h; a1 unlocks; b lasts -2; " +
				"a2 locks 1m; a2 relocks; a2 relocks; a2 unlocks; a2 unlocks; a lasts 40s..1m; " +
				"b lasts 40s..1m; a2 unlocks; a3 locks; a lasts 10s..30s; b lasts 10s..30s; " +
				"redis PERSIST LOCK; a lasts -1; a3 unlocks",
		})
	})
}

// Each hold has a greater token, in whatever way it was taken, and so has each Relock: the time of the
// server in µs, or one more than the last if that is ahead of it.
func TestTokensGrow(t *testing.T) {
	onBoth(t, func(s *env) {
		ctx, name := within(s), redistest.Name(s)
		lock := s.locks.FencedLock(name)
		want(s, "last token", must(lock.LastToken(ctx))(s), 0)
		token, ahead := int64(0), false
		grows := func(h *rlock.Hold) {
			s.Helper()
			now := must(s.look.Time(ctx).Result())(s)
			switch {
			case ahead:
				want(s, "token", h.Token(), token+1)
			case h.Token() <= token || now.Sub(time.UnixMicro(h.Token())).Abs() > patience:
				s.Errorf("token %d at %d, after %d", h.Token(), now.UnixMicro(), token)
			}
			token = h.Token()
		}
		for _, take := range []func() (*rlock.Hold, error){
			func() (*rlock.Hold, error) { return lock.Lock(ctx) },
			func() (*rlock.Hold, error) { return lock.LockFor(ctx, time.Minute) },
			func() (*rlock.Hold, error) { return took(lock.TryLock(ctx, 0, 0))(s), nil },
			func() (*rlock.Hold, error) {
				token, ahead = time.Now().Add(time.Hour).UnixMicro(), true
				noError(s, s.look.Set(ctx, "redisson_lock_token:{"+name+"}", token, 0).Err())
				return took(lock.TryLock(ctx, patience, time.Minute))(s), nil
			},
		} {
			h := must(take())(s)
			grows(h)
			noError(s, refusal(lock.TryLock(ctx, 0, 0))) // draws none
			noError(s, h.Relock(ctx))
			grows(h)
			noError(s, h.Unlock(ctx))
			noError(s, h.Unlock(ctx))
			want(s, "last token", must(lock.LastToken(ctx))(s), token)
		}
	})
}

// Callers that wait for several locks share a connection that is subscribed, and when they have left it is
// subscribed to nothing.
func TestWaitersShareASubscription(t *testing.T) {
	eachKind(t, func(t *testing.T, of kind) {
		s := onRedis(t)
		ctx, name := within(t), redistest.Name(t)
		const locks, callers, rounds = 5, 32, 10
		channels := func(least, most int) {
			s.Helper()
			redistest.Until(s, "channels", func() error {
				all := must(s.look.PubSubChannels(ctx, "*").Result())(s)
				if len(all) < least || len(all) > most {
					return fmt.Errorf("%v, want %d", all, least)
				}
				return nil
			})
		}
		var holds []*rlock.Hold
		var all sync.WaitGroup
		for i := range locks {
			lock := of(s.locks, fmt.Sprint(name, i))
			holds = append(holds, must(lock.LockFor(ctx, time.Hour))(t))
			for range callers / locks {
				all.Go(func() { s.passes(ctx, lock) })
			}
		}
		channels(locks, callers) // a waiter for a fair lock has one for itself
		text := must(s.look.Do(ctx, "CLIENT", "LIST", "TYPE", "pubsub").Text())(t)
		want(t, "connections that are subscribed", strings.Count(text, "\n"), 1)
		for _, h := range holds {
			noError(t, h.Unlock(ctx))
		}
		all.Wait()
		channels(0, 0)
		for range callers {
			all.Go(func() {
				for range rounds {
					s.passes(ctx, of(s.locks, fmt.Sprint(name, rand.IntN(locks))))
				}
			})
		}
		all.Wait()
		channels(0, 0)
	})
}

// passes fails the test unless a caller locks a lock, does some work, and unlocks it.
func (s *env) passes(ctx context.Context, lock locker, work ...func()) {
	if err := pass(ctx, lock, work...); err != nil {
		s.Error(err)
	}
}

// pass locks a lock, does some work, and unlocks it.
func pass(ctx context.Context, lock locker, work ...func()) error {
	h, err := lock.Lock(ctx)
	if err != nil {
		return err
	}
	for _, do := range work {
		do()
	}
	return h.Unlock(ctx)
}

// Without a server a caller gets an error before its wait ends. When the server is back, it gets the lock.
func TestServerThatIsDown(t *testing.T) {
	eachKind(t, func(t *testing.T, of kind) {
		t.Parallel()
		server := redistest.Start(t)
		s := newEnv(t, server.Client(t), server.Admin())
		ctx, lock := within(t), of(s.locks, redistest.Name(t))
		s.passes(ctx, lock)
		server.Stop()
		h, ok, err := lock.TryLock(ctx, time.Hour, 10*time.Second)
		unanswered(t, h, ok, err)
		wantErr(t, "Lock", errOf(lock.Lock(ctx)), rratelimiter.ErrNoAnswer)
		server.Restart(t)
		s.passes(ctx, lock)
	})
}

// Callers of several processes hold a lock one at a time, each as often as it asks. Callers whose contexts
// end at any moment leave nothing that is held or renewed, nor a place in a queue.
func TestOneAtATime(t *testing.T) {
	eachKind(t, func(t *testing.T, of kind) {
		s := onRedis(t)
		ctx, name := within(t), redistest.Name(t)
		holders := make(chan struct{}, 1)
		var all sync.WaitGroup
		for _, c := range []*rlock.Client{s.locks, s.locks, s.client(), s.client()} {
			all.Go(func() {
				for range redistest.Rounds(t, 100) {
					ending, end := context.WithCancel(ctx)
					time.AfterFunc(rand.N(2*time.Millisecond), end)
					err := pass(ending, of(c, name), func() { s.alone(holders) })
					if err != nil && !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				}
			})
			all.Go(func() {
				for range redistest.Rounds(t, 12) {
					s.passes(ctx, of(c, name), func() { s.alone(holders) })
				}
			})
		}
		all.Wait()
		s.free(name)
		redistest.Eventually(t, "an empty queue", func() bool {
			return must(s.look.LLen(ctx, "redisson_lock_queue:{"+name+"}").Result())(t) == 0
		})
		noError(t, took(of(s.client(), name).TryLock(ctx, 0, 0))(t).Unlock(ctx))
	})
}

// A hold is renewed whatever holds of the same lock have just ended in its process.
func TestRenewalAfterOthersHaveEnded(t *testing.T) {
	eachKindInBubble(t, func(s *env, lock locker) {
		ctx := s.Context()
		for range 4 {
			var all sync.WaitGroup
			for range 16 {
				all.Go(func() {
					for range 10 {
						h, ok, err := lock.TryLock(ctx, 0, 0)
						if ok {
							err = errors.Join(h.Relock(ctx), h.Unlock(ctx), h.Unlock(ctx))
						}
						if err != nil {
							s.Error(err)
						}
					}
				})
			}
			all.Wait()
			h := took(lock.TryLock(ctx, 0, 0))(s)
			time.Sleep(5 * time.Minute)
			noError(s, h.Err())
			want(s, "held", must(h.IsHeld(ctx))(s), true)
			noError(s, h.Unlock(ctx))
			time.Sleep(time.Minute)
			want(s, "locked", must(lock.IsLocked(ctx))(s), false)
		}
	})
}
