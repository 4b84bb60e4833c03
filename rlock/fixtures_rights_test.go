package rlock_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// restrictedName is the lock of which docs/lock.md says which rights a user needs.
const restrictedName = "report"

// A restricted is servers, and a client of a user with few rights.
type restricted struct {
	*fairEnv                 // its look has all rights, on the server of the lock
	nodes    []*redis.Client // the same on all servers
	longest  time.Duration   // how long an action waits for what must come
}

func newRestricted(t *testing.T, rdb redis.UniversalClient, look *redis.Client) *restricted {
	t.Helper()
	s := fairEnvOf(&env{T: t, rdb: rdb, look: look}, restrictedName)
	return &restricted{fairEnv: s, nodes: []*redis.Client{look}}
}

// restrictedKinds are the kinds of locks as docs/lock.md names them.
var restrictedKinds = map[string]kind{
	"plain": kinds["Lock"], "fenced": kinds["FencedLock"], "fair": kinds["FairLock"],
}

// Parties are a lock in two processes of the user.
type parties struct {
	*restricted
	one, other locker
	renewed    locker // that of one, renewed twice a second
}

// An action is what a user does with a free lock.
type action struct {
	name, kind string // of the lock; empty for all kinds
	do         func(ctx context.Context, p *parties) error

	// only is the right for which a action is done that takes long; empty for all.
	only string
}

// actions drive every path of every script.
var actions = []action{
	{name: "Lock", do: func(ctx context.Context, p *parties) error { return errOf(p.one.Lock(ctx)) }},
	{name: "Unlock", do: holding(func(ctx context.Context, _ *parties, h *rlock.Hold) error {
		return h.Unlock(ctx)
	})},
	{name: "Relock", do: holding(func(ctx context.Context, _ *parties, h *rlock.Hold) error {
		return cmp.Or(h.Relock(ctx), errOf(h.HoldCount(ctx)), errOf(h.IsHeld(ctx)), h.Unlock(ctx),
			h.Unlock(ctx))
	})},
	{name: "a refused TryLock", do: holding(func(ctx context.Context, p *parties, _ *rlock.Hold) error {
		return refusal(p.other.TryLock(ctx, 0, 0))
	})},
	{name: "a wait that ends", do: holding(func(ctx context.Context, p *parties, _ *rlock.Hold) error {
		err := refusal(p.other.TryLock(ctx, time.Second, 0))
		if err == nil {
			p.gone()
		}
		return err
	})},
	{name: "a look", do: func(ctx context.Context, p *parties) error {
		err := cmp.Or(errOf(p.one.IsLocked(ctx)), errOf(p.one.RemainTimeToLive(ctx)))
		if l, ok := p.one.(*rlock.FencedLock); ok && err == nil {
			err = errOf(l.LastToken(ctx))
		}
		return err
	}},
	{name: "ForceUnlock", do: holding(func(ctx context.Context, p *parties, _ *rlock.Hold) error {
		return errOf(p.other.ForceUnlock(ctx))
	})},
	{name: "a late Unlock", do: holding(func(ctx context.Context, p *parties, h *rlock.Hold) error {
		noError(p, p.look.Del(ctx, restrictedName).Err())
		if err := h.Unlock(ctx); !errors.Is(err, rlock.ErrLost) {
			return fmt.Errorf("%w, want ErrLost", err)
		}
		return nil
	})},
	{name: "a renewal", do: isRenewed},
	{name: "a wake-up", do: holding(func(ctx context.Context, p *parties, h *rlock.Hold) error {
		next := p.waits(ctx, p.other, 2) // it asks again when it hears, or may not
		return cmp.Or(h.Unlock(ctx), <-next)
	})},
	{name: "a hand-over", do: holding(handsOver)},
	{name: "the first call", kind: "plain", do: func(ctx context.Context, p *parties) error {
		noError(p, p.look.ScriptFlush(ctx).Err())
		return errOf(p.one.Lock(ctx))
	}},
	{name: "the end of an idempotency key", kind: "plain",
		do: holding(func(ctx context.Context, p *parties, h *rlock.Hold) error {
			return cmp.Or(h.Unlock(ctx), p.noIdempotencyKey(ctx))
		})},
	{name: "a wait of some seconds", kind: "fair", only: "+ping", do: holding(pings)},
	{name: "a dead waiter", kind: "fair", do: func(ctx context.Context, p *parties) error {
		p.put("java:1", -time.Second)
		return taken(p.one.TryLock(ctx, 0, 0))
	}},
	{name: "a waiter that leaves", kind: "fair", do: holding(leaves)},
	{name: "a place", kind: "fair", only: "+lrange", do: holding(keepsItsPlace)},
}

// holding returns an action that takes the lock and calls do with the hold.
func holding(do func(ctx context.Context, p *parties, h *rlock.Hold) error) func(
	ctx context.Context, p *parties,
) error {
	return func(ctx context.Context, p *parties) error {
		h, err := p.one.LockFor(ctx, time.Hour)
		if err != nil {
			return err
		}
		return do(ctx, p, h)
	}
}

// waits starts a caller that waits for a held lock, and returns when it has asked that number of times. The
// channel receives its result.
func (p *parties) waits(ctx context.Context, lock locker, times int64) (gets <-chan error) {
	p.Helper()
	before := p.scripts()
	next := async(func() error { return taken(lock.TryLock(ctx, p.longest, time.Hour)) })
	p.awaits(next, before+times)
	return next
}

// awaits returns when the server was sent so many scripts, or a caller has its result.
func (p *parties) awaits(result <-chan error, scripts int64) {
	p.Helper()
	redistest.Eventually(p, "a waiter", func() bool { return len(result) > 0 || p.scripts() >= scripts })
}

// isRenewed sees the lease of a hold renewed.
func isRenewed(ctx context.Context, p *parties) error {
	h, err := p.renewed.Lock(ctx)
	if err != nil {
		return err
	}
	last := time.Hour
	redistest.Eventually(p, "a renewal", func() bool {
		before := last
		last = must(p.look.PTTL(ctx, restrictedName).Result())(p)
		return last > before || h.Err() != nil
	})
	return h.Err()
}

// handsOver has callers of one process pass a lock on.
func handsOver(ctx context.Context, p *parties, h *rlock.Hold) error {
	next, before := make(chan error, 5), p.scripts()
	for range cap(next) {
		go func() {
			h, ok, err := p.one.TryLock(ctx, p.longest, time.Hour)
			if ok {
				err = h.Unlock(ctx)
			}
			next <- cmp.Or(taken(h, ok, nil), err)
		}()
	}
	p.awaits(next, before+2)
	err := h.Unlock(ctx)
	for range cap(next) {
		err = cmp.Or(err, <-next)
	}
	return err
}

// noIdempotencyKey returns when there is none.
func (p *parties) noIdempotencyKey(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.longest)
	defer cancel()
	for {
		keys, err := p.look.Keys(ctx, "redisson_unlock_latch:*").Result()
		if err != nil || len(keys) == 0 {
			return err
		}
	}
}

// pings has a caller wait until its connection is checked.
func pings(ctx context.Context, p *parties, _ *rlock.Hold) error {
	waiting, leave := context.WithCancel(ctx)
	defer leave()
	next, before := p.waits(waiting, p.other, 2), redistest.Calls(p, p.look, "ping")
	redistest.Eventually(p, "a ping", func() bool {
		return redistest.Calls(p, p.look, "ping") != before || len(next) > 0
	})
	leave()
	if err := <-next; !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w, want that it has left", err)
	}
	return nil
}

// leaves lets one of two callers leave: it unsubscribes, and the other is still notified.
func leaves(ctx context.Context, p *parties, h *rlock.Hold) error {
	leaving, leave := context.WithCancel(ctx)
	defer leave()
	ends := func() int64 { return redistest.Calls(p, p.look, "unsubscribe", "sunsubscribe") }
	first, second, before := p.waits(leaving, p.other, 2), p.waits(ctx, p.other, 1), ends()
	leave()
	<-first
	redistest.Eventually(p, "the end of a subscription", func() bool {
		return ends() != before || len(second) > 0
	})
	return cmp.Or(h.Unlock(ctx), <-second)
}

// keepsItsPlace has a caller wait until its place in the queue is renewed.
func keepsItsPlace(ctx context.Context, p *parties, _ *rlock.Hold) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := p.waits(ctx, p.other, 2)
	queue := p.waiting()
	if len(queue) == 0 {
		return <-next
	}
	owner := queue[0]
	first, last := p.look.ZScore(ctx, p.scores, owner).Val(), 0.0
	redistest.Eventually(p, "a renewal", func() bool {
		last = p.look.ZScore(ctx, p.scores, owner).Val()
		return last > first || len(next) > 0
	})
	if last > first {
		cancel()
		<-next
		return nil
	}
	return <-next
}

// errOf returns the error of a call.
func errOf[T any](_ T, err error) error { return err }

// taken returns why TryLock has not taken a lock.
func taken(_ *rlock.Hold, ok bool, err error) error {
	if err == nil && !ok {
		err = errors.New("it is refused")
	}
	return err
}

// refusal returns an error unless TryLock was refused.
func refusal(_ *rlock.Hold, ok bool, err error) error {
	if err == nil && ok {
		err = errors.New("it is taken")
	}
	return err
}
