package rlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// The specs here are of requests that arrive when go-redis has sent them again, or when
// their callers have gone.

// A first copy that arrives when the hold has ended takes nothing.
func TestALateLockTakesNothing(t *testing.T) {
	t.Parallel()
	r := onRoad(t)
	ctx := within(t)
	h, c := r.copied(ctx)
	noError(t, h.Unlock(ctx))
	want(t, "owners after the unlock", len(r.owners(r.name)), 0)
	r.tidied(r.locks)
	c.arrives()
	want(t, "owners after the late copy", len(r.owners(r.name)), 0)
}

// It takes nothing from who has the lock by then, and lets go of nothing.
func TestALateUnlockHarmsNobody(t *testing.T) {
	t.Parallel()
	r := onRoad(t)
	ctx := within(t)
	h := must(r.lock().Lock(ctx))(t)
	c := r.holds(isUnlock, func() error { return h.Unlock(ctx) })
	noError(t, c.overtaken())
	next := must(r.rival().Lock(ctx))(t)
	c.arrives()
	want(t, "the next holder", r.owners(r.name)[next.Owner()], "1")
	noError(t, next.Unlock(ctx))
}

// A caller is refused by its second copy and leaves. Its first copy arrives when the
// lock is free: it would have it for nobody.
func TestALateCopyOfACallerThatWasRefused(t *testing.T) {
	t.Parallel()
	for what, wait := range map[string]time.Duration{"single": 0, "waits": time.Second} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := onRoad(t)
			ctx := within(t)
			h := must(r.rival().Lock(ctx))(t)
			c := r.holds(isLock, func() error {
				_, ok, err := r.lock().TryLock(ctx, wait, 0)
				if ok {
					return errors.New("it has the lock")
				}
				return err
			})
			noError(t, c.overtaken())
			redistest.Until(t, "a latch", func() error {
				if len(must(r.look.Keys(ctx, "redisson_unlock_latch:*").Result())(t)) == 0 {
					return errors.New("none yet")
				}
				return nil
			})
			noError(t, h.Unlock(ctx))
			c.arrives()
			r.free(r.name)
		})
	}
}

// A late copy takes the lock for a waiter that does not know. When it asks, it has the lock
// for as long as it then believes.
func TestALateCopyServesItsWaiter(t *testing.T) {
	t.Parallel()
	r := onRoad(t)
	ctx := within(t)
	h := must(r.rival().Lock(ctx))(t)
	held := make(chan *rlock.Hold, 1)
	before := r.scripts()
	c := r.holds(isLock, func() error {
		h, err := r.lock().Lock(ctx)
		held <- h
		return err
	})
	r.proxy.Cut()
	// The second copy, and one when it was subscribed: both are refused.
	r.ran(before, 2)
	noError(t, r.look.Del(ctx, r.name).Err()) // nobody is told
	c.arrives()
	want(t, "owners after the late copy", len(r.owners(r.name)), 1)
	noError(t, r.look.PExpire(ctx, r.name, 5*time.Second).Err()) // as if time had passed
	noError(t, r.look.Publish(ctx, "redisson_lock__channel:{"+r.name+"}", "0").Err())
	waiter := comes(t, held)
	noError(t, comes(t, c.told))
	if left := must(r.lock().RemainTimeToLive(ctx))(t); left < 10*time.Second {
		t.Errorf("its lease is over in %v", left)
	}
	noError(t, waiter.Unlock(ctx))
	if err := h.Unlock(ctx); !errors.Is(err, rlock.ErrLost) {
		t.Errorf("the hold that was deleted: %v", err)
	}
	r.free(r.name)
}

// Copies of a Relock that come after the unlocks change nothing, nor do those of an Unlock
// that was not the last.
func TestALateRelock(t *testing.T) {
	t.Parallel()
	for what, last := range map[string]func(ctx context.Context, h *rlock.Hold) error{
		"Relock": func(ctx context.Context, h *rlock.Hold) error { return h.Relock(ctx) },
		"Unlock": func(ctx context.Context, h *rlock.Hold) error {
			return errors.Join(h.Relock(ctx), h.Unlock(ctx))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := onRoad(t)
			ctx := within(t)
			h := must(r.lock().Lock(ctx))(t)
			match := isLock
			if what == "Unlock" {
				match = isUnlock
			}
			c := r.holds(match, func() error { return last(ctx, h) })
			noError(t, c.overtaken())
			for h.Err() == nil {
				noError(t, h.Unlock(ctx))
			}
			next := must(r.rival().Lock(ctx))(t)
			c.arrives()
			r.last(ctx, next)
		})
	}
}

// A late copy of an unlock that handed the lock on does not hand it on again.
func TestALateHandingOn(t *testing.T) {
	t.Parallel()
	r := onRoad(t)
	ctx := within(t)
	h, heir := r.heir(ctx)
	c := r.holds(isUnlock, func() error { return h.Unlock(ctx) })
	noError(t, c.overtaken())
	next := comes(t, heir)
	noError(t, next.Unlock(ctx))
	last := must(r.rival().Lock(ctx))(t)
	r.tidied(r.locks)
	c.arrives()
	r.last(ctx, last)
}

// A late copy of a Lock does not undo a Relock.
func TestALateLockOfWhoHasIt(t *testing.T) {
	t.Parallel()
	r := onRoad(t)
	ctx := within(t)
	h, c := r.copied(ctx)
	noError(t, h.Relock(ctx))
	c.arrives()
	want(t, "count", must(h.HoldCount(ctx))(t), 2)
	noError(t, h.Unlock(ctx))
	noError(t, h.Unlock(ctx))
}

// copied returns a hold whose request was sent twice; the first copy is on its way.
func (r *road) copied(ctx context.Context) (h *rlock.Hold, c *firstCopy) {
	r.Helper()
	c = r.holds(isLock, func() (err error) {
		h, err = r.lock().Lock(ctx)
		return err
	})
	noError(r, c.overtaken())
	return h, c
}

// heir returns a hold, and where the one of a waiter in the same process comes.
func (r *road) heir(ctx context.Context) (h *rlock.Hold, heir <-chan *rlock.Hold) {
	r.Helper()
	h = must(r.lock().Lock(ctx))(r)
	before := r.scripts()
	heir = r.inherits(ctx, r.lock())
	r.ran(before, 2) // the second one when it was subscribed: from then on it sleeps
	return h, heir
}

// last expects that only h has the lock, and unlocks it.
func (r *road) last(ctx context.Context, h *rlock.Hold) {
	r.Helper()
	owners := r.owners(r.name)
	want(r, "owners", len(owners), 1)
	want(r, "the holder", owners[h.Owner()], "1")
	noError(r, h.Unlock(ctx))
	r.free(r.name)
}
