package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// guardedName is the lock of which docs/lock.md says which rights a user needs.
const guardedName = "report"

// A guarded is servers, and a client of a user with few rights.
type guarded struct {
	*fairStage                 // its look is of somebody who may do everything, where the lock is
	nodes      []*redis.Client // the same on all servers
	longest    time.Duration   // that a deed waits for what must come
}

func newGuarded(t *testing.T, rdb redis.UniversalClient, look *redis.Client) *guarded {
	t.Helper()
	s := fairStageOf(&stage{T: t, rdb: rdb, look: look}, guardedName)
	return &guarded{fairStage: s, nodes: []*redis.Client{look}}
}

// calls returns how often the server was sent a command, also in vain.
func (g *guarded) calls(command string) int64 {
	g.Helper()
	for line := range strings.Lines(must(g.look.Info(g.Context(), "commandstats").Result())(g)) {
		var calls, rejected int64
		var number float64
		const format = ":calls=%d,usec=%f,usec_per_call=%f,rejected_calls=%d,"
		if n, _ := fmt.Sscanf(line, "cmdstat_"+command+format, &calls, &number, &number, &rejected); n == 4 {
			return calls + rejected
		}
	}
	return 0
}

// A lockable is a lock of any kind.
type lockable interface {
	Lock(ctx context.Context) (*rlock.Hold, error)
	LockFor(ctx context.Context, lease time.Duration) (*rlock.Hold, error)
	TryLock(ctx context.Context, wait, lease time.Duration) (*rlock.Hold, bool, error)
	ForceUnlock(ctx context.Context) (bool, error)
	IsLocked(ctx context.Context) (bool, error)
	RemainTimeToLive(ctx context.Context) (time.Duration, error)
}

// guardedKinds are the kinds of locks, and those without the fair ones.
var guardedKinds = []string{"plain", "fenced", "fair"}

var unfairKinds = guardedKinds[:2]

func guardedLock(kind string, c *rratelimiter.Client, opts ...rlock.Option) lockable {
	locks := rlock.New(c, opts...)
	switch kind {
	case "fenced":
		return locks.FencedLock(guardedName)
	case "fair":
		return locks.FairLock(guardedName)
	}
	return locks.Lock(guardedName)
}

// Parties are a lock in two processes of the user.
type parties struct {
	*guarded
	one, other lockable
	renewed    lockable // that of one, renewed twice a second
}

// A deed is what a user does with a lock that nobody has.
type deed struct {
	name, kind string // of the lock; empty for all kinds
	do         func(ctx context.Context, p *parties) error

	// only is the right for which a deed is done that takes long; empty for all.
	only string
}

// deeds drive every path of every script.
var deeds = []deed{
	{name: "Lock", do: func(ctx context.Context, p *parties) error { return errOf(p.one.Lock(ctx)) }},
	{name: "Unlock", do: func(ctx context.Context, p *parties) error {
		h, err := p.one.LockFor(ctx, time.Hour)
		if err != nil {
			return err
		}
		return h.Unlock(ctx)
	}},
	{name: "Relock", do: func(ctx context.Context, p *parties) error {
		h, err := p.one.Lock(ctx)
		if err != nil {
			return err
		}
		return all(h.Relock(ctx), errOf(h.HoldCount(ctx)), errOf(h.IsHeld(ctx)), h.Unlock(ctx), h.Unlock(ctx))
	}},
	{name: "a refused TryLock", do: func(ctx context.Context, p *parties) error {
		return all(errOf(p.one.LockFor(ctx, time.Hour)), refusal(p.other.TryLock(ctx, 0, 0)))
	}},
	{name: "a wait that ends", do: func(ctx context.Context, p *parties) error {
		err := all(errOf(p.one.LockFor(ctx, time.Hour)),
			refusal(p.other.TryLock(ctx, time.Second, 0)))
		if err == nil {
			p.gone()
		}
		return err
	}},
	{name: "a look", do: func(ctx context.Context, p *parties) error {
		err := all(errOf(p.one.IsLocked(ctx)), errOf(p.one.RemainTimeToLive(ctx)))
		if l, ok := p.one.(*rlock.FencedLock); ok && err == nil {
			err = errOf(l.LastToken(ctx))
		}
		return err
	}},
	{name: "ForceUnlock", do: func(ctx context.Context, p *parties) error {
		return all(errOf(p.one.LockFor(ctx, time.Hour)), errOf(p.other.ForceUnlock(ctx)))
	}},
	{name: "a renewal", do: isRenewed},
	{name: "a wake-up", do: func(ctx context.Context, p *parties) error {
		h, err := p.one.LockFor(ctx, time.Hour)
		if err != nil {
			return err
		}
		next := p.waits(ctx, p.other, 2) // it asks again when it hears, or may not
		return all(h.Unlock(ctx), <-next)
	}},
	{name: "a hand-over", do: handsOver},
	{name: "the first call", kind: "plain", do: func(ctx context.Context, p *parties) error {
		noError(p, p.look.ScriptFlush(ctx).Err())
		return errOf(p.one.Lock(ctx))
	}},
	{name: "the end of a latch", kind: "plain", do: func(ctx context.Context, p *parties) error {
		h, err := p.one.Lock(ctx)
		if err != nil {
			return err
		}
		return all(h.Unlock(ctx), p.noLatch(ctx))
	}},
	{name: "a wait of some seconds", kind: "fair", only: "+ping", do: pings},
	{name: "a dead waiter", kind: "fair", do: func(ctx context.Context, p *parties) error {
		p.put("java:1", -time.Second)
		return taken(p.one.TryLock(ctx, 0, 0))
	}},
	{name: "a waiter that leaves", kind: "fair", do: leaves},
	{name: "a place", kind: "fair", only: "+lrange", do: keepsItsPlace},
}

// waits has a caller wait for a lock that is held, and returns when it has asked so many
// times. It sends what came of it.
func (p *parties) waits(ctx context.Context, lock lockable, times int64) (gets <-chan error) {
	p.Helper()
	next, before := make(chan error, 1), p.scripts()
	go func() { next <- taken(lock.TryLock(ctx, p.longest, time.Hour)) }()
	redistest.Until(p, "a waiter", func() error {
		if len(next) == 0 && p.scripts() < before+times {
			return errors.New("it does not wait")
		}
		return nil
	})
	return next
}

// isRenewed sees the lease of a hold renewed.
func isRenewed(ctx context.Context, p *parties) error {
	h, err := p.renewed.Lock(ctx)
	if err != nil {
		return err
	}
	last := time.Hour
	redistest.Until(p, "a renewal", func() error {
		left := must(p.look.PTTL(ctx, guardedName).Result())(p)
		if left > last || h.Err() != nil {
			return nil
		}
		last = left
		return errors.New("its lease only gets shorter")
	})
	return h.Err()
}

// handsOver has callers of one process pass a lock on.
func handsOver(ctx context.Context, p *parties) error {
	h, err := p.one.LockFor(ctx, time.Hour)
	if err != nil {
		return err
	}
	next, before := make(chan error, 5), p.scripts()
	for range cap(next) {
		go func() {
			h, ok, err := p.one.TryLock(ctx, p.longest, time.Hour)
			if ok {
				err = h.Unlock(ctx)
			}
			next <- all(taken(h, ok, nil), err)
		}()
	}
	redistest.Until(p, "waiters", func() error {
		if len(next) == 0 && p.scripts() < before+2 {
			return errors.New("they do not wait")
		}
		return nil
	})
	err = h.Unlock(ctx)
	for range cap(next) {
		err = all(err, <-next)
	}
	return err
}

// noLatch returns nil when there is no latch.
func (p *parties) noLatch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.longest)
	defer cancel()
	for {
		latches, err := p.look.Keys(ctx, "redisson_unlock_latch:*").Result()
		if err != nil || len(latches) == 0 {
			return err
		}
	}
}

// pings has a caller wait until its connection is checked.
func pings(ctx context.Context, p *parties) error {
	waiting, leave := context.WithCancel(ctx)
	defer leave()
	if err := errOf(p.one.LockFor(ctx, time.Hour)); err != nil {
		return err
	}
	next, before := p.waits(waiting, p.other, 2), p.calls("ping")
	redistest.Until(p, "a ping", func() error {
		if p.calls("ping") == before && len(next) == 0 {
			return errors.New("none yet")
		}
		return nil
	})
	leave()
	if err := <-next; !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w, want that it has left", err)
	}
	return nil
}

// leaves has one of two callers leave: it unsubscribes, and the other is told all the same.
func leaves(ctx context.Context, p *parties) error {
	h, err := p.one.LockFor(ctx, time.Hour)
	if err != nil {
		return err
	}
	leaving, leave := context.WithCancel(ctx)
	defer leave()
	ends := func() int64 { return p.calls("unsubscribe") + p.calls("sunsubscribe") }
	first, second, before := p.waits(leaving, p.other, 2), p.waits(ctx, p.other, 1), ends()
	leave()
	<-first
	redistest.Until(p, "the end of a subscription", func() error {
		if ends() == before && len(second) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	return all(h.Unlock(ctx), <-second)
}

// keepsItsPlace has a caller wait until its place in the queue is renewed.
func keepsItsPlace(ctx context.Context, p *parties) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := errOf(p.one.LockFor(ctx, time.Hour)); err != nil {
		return err
	}
	next := p.waits(ctx, p.other, 2)
	queue := p.waiting()
	if len(queue) == 0 {
		return <-next
	}
	owner := queue[0]
	first, last := p.look.ZScore(ctx, p.scores, owner).Val(), 0.0
	redistest.Until(p, "a renewal", func() error {
		last = p.look.ZScore(ctx, p.scores, owner).Val()
		if last <= first && len(next) == 0 {
			return errors.New("its place is as it was")
		}
		return nil
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

// all returns the first error.
func all(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

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
