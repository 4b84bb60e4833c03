package rlock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// A lock is in Redis as Java writes it, and gone after Unlock.
func TestLockOnTheWire(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *stage) {
		ctx := within(s)
		name := redistest.Name(s)
		lock := s.locks.Lock(name)
		h := must(lock.Lock(ctx))(s)
		all := must(s.look.HGetAll(ctx, name).Result())(s)
		if len(all) != 1 || all[h.Owner()] != "1" {
			s.Errorf("the hash is %v, want 1 for %s", all, h.Owner())
		}
		ttl := must(s.look.PTTL(ctx, name).Result())(s)
		if ttl > 30*time.Second || ttl < 25*time.Second {
			s.Errorf("the lease is %v, want 30s", ttl)
		}
		noError(s, h.Relock(ctx))
		want(s, "count", must(s.look.HGet(ctx, name, h.Owner()).Result())(s), "2")
		want(s, "HoldCount", must(h.HoldCount(ctx))(s), 2)
		noError(s, h.Unlock(ctx))
		want(s, "count", must(s.look.HGet(ctx, name, h.Owner()).Result())(s), "1")
		noError(s, h.Err())
		noError(s, h.Unlock(ctx))
		want(s, "keys", must(s.look.Exists(ctx, name).Result())(s), 0)
		want(s, "cause", context.Cause(h.Context()), context.Canceled)
		if err := h.Unlock(ctx); !errors.Is(err, rlock.ErrNotHeld) || errors.Is(err, rlock.ErrLost) {
			s.Errorf("one Unlock too many: %v", err)
		}
		if err := h.Relock(ctx); !errors.Is(err, rlock.ErrNotHeld) {
			s.Errorf("Relock of what is not held: %v", err)
		}
	})
}

// The latch of an unlock is removed.
func TestLatchIsRemoved(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *stage) {
		ctx := within(s)
		name := redistest.Name(s)
		h := must(s.locks.Lock(name).Lock(ctx))(s)
		noError(s, h.Unlock(ctx))
		redistest.Until(s, "no latch", func() error {
			if keys := must(s.look.Keys(ctx, "*").Result())(s); len(keys) > 0 {
				return errors.New(strings.Join(keys, " "))
			}
			return nil
		})
	})
}

// Many callers of several processes hold a lock one at a time.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *stage) {
		ctx := within(s)
		name := redistest.Name(s)
		const processes, callers, rounds = 3, 8, 20
		holders := make(chan struct{}, 1)
		var all sync.WaitGroup
		for range processes {
			locks := s.client()
			for range callers {
				all.Go(func() {
					for range rounds {
						h, err := locks.Lock(name).Lock(ctx)
						if err != nil {
							s.Error(err)
							return
						}
						s.alone(holders)
						if err := h.Unlock(ctx); err != nil {
							s.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		want(s, "keys", must(s.look.Exists(ctx, name).Result())(s), 0)
	})
}

// A caller that waits leaves at its timeout, and nothing stays behind.
func TestTimeout(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *stage) {
		ctx := within(s)
		name := redistest.Name(s)
		h := must(s.locks.Lock(name).Lock(ctx))(s)
		for _, wait := range []time.Duration{0, time.Nanosecond, 20 * time.Millisecond} {
			if other, ok, err := s.locks.Lock(name).TryLock(ctx, wait, 0); other != nil || ok || err != nil {
				s.Errorf("TryLock for %v: %v, %v, %v; want false", wait, other, ok, err)
			}
		}
		noError(s, h.Unlock(ctx))
		h = took(s.locks.Lock(name).TryLock(ctx, 0, 0))(s)
		noError(s, h.Unlock(ctx))
	})
}

// A hold says at once that it has ended, and does not wait for who ends it: when its lease is over,
// and when the Client is closed.
func TestAHoldEndsAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		for i := range 100 {
			h := must(s.locks.Lock(redistest.Name(s)).LockFor(s.Context(), time.Second))(s)
			time.Sleep(time.Second)
			if err := h.Err(); !errors.Is(err, rlock.ErrLost) {
				s.Fatalf("hold %d when its lease is over: %v", i, err)
			}
			limiters := rratelimiter.New(s.rdb)
			h = must(rlock.New(limiters).Lock(redistest.Name(s)).Lock(s.Context()))(s)
			noError(s, limiters.Close())
			if err := h.Err(); !errors.Is(err, rratelimiter.ErrClosed) {
				s.Fatalf("hold %d of a closed Client: %v", i, err)
			}
		}
	})
}
