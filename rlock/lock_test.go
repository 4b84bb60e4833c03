package rlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
	"github.com/redisson-go/rratelimiter/rlock"
)

// A lock of each kind is in Redis as Java writes it. After Unlock nothing is left of it, and its
// idempotency key goes soon.
func TestLockOnTheWire(t *testing.T) {
	eachKindOfTwo(t, func(s *env, lock, _ locker) {
		ctx, name := within(s), lock.Name()
		h := must(lock.Lock(ctx))(s)
		inRedis := func(count string) {
			s.Helper()
			all := s.owners(name)
			want(s, "owners", len(all), 1)
			want(s, "count", all[h.Owner()], count)
		}
		inRedis("1")
		ttl := must(s.look.PTTL(ctx, name).Result())(s)
		if ttl > 30*time.Second || ttl < 25*time.Second {
			s.Errorf("the lease is %v, want 30s", ttl)
		}
		noError(s, h.Relock(ctx))
		inRedis("2")
		want(s, "HoldCount", must(h.HoldCount(ctx))(s), 2)
		noError(s, h.Unlock(ctx))
		inRedis("1")
		noError(s, h.Err())
		noError(s, h.Unlock(ctx))
		want(s, "keys", must(s.look.Exists(ctx, name).Result())(s), 0)
		want(s, "cause", context.Cause(h.Context()), context.Canceled)
		wantEnded(s, "one Unlock too many", h.Unlock(ctx))
		wantErr(s, "Relock of what is not held", h.Relock(ctx), rlock.ErrNotHeld)
		noError(s, s.look.Del(ctx, wire.LockKeysOf(name).Token).Err()) // it stays
		redistest.Until(s, "no key", func() error {
			if keys := must(s.look.Keys(ctx, "*").Result())(s); len(keys) > 0 {
				return errors.New(strings.Join(keys, " "))
			}
			return nil
		})
	})
}

// Err reports the end of a hold at once, before its goroutine ends it: when its lease expires, and when the
// Client is closed.
func TestHoldReportsItsEndAtOnce(t *testing.T) {
	inBubble(t, func(s *env) {
		for range 100 {
			h := must(s.locks.Lock(redistest.Name(s)).LockFor(s.Context(), time.Second))(s)
			time.Sleep(time.Second)
			wantErr(s, "when its lease has ended", h.Err(), rlock.ErrLost)
			locks, end := open(s, s.rdb)
			h = must(locks.Lock(redistest.Name(s)).Lock(s.Context()))(s)
			noError(s, end())
			wantErr(s, "of a closed Client", h.Err(), rratelimiter.ErrClosed)
		}
	})
}
