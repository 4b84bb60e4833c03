package rlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// The specs here are of requests that arrive after their second copy, or after their callers have left.

// A first copy that arrives when the hold has ended takes nothing.
func TestLateLockTakesNothing(t *testing.T) {
	r := viaProxy(t)
	ctx := within(t)
	h, c := r.copied(ctx)
	noError(t, h.Unlock(ctx))
	want(t, "owners after the unlock", len(r.owners(r.name)), 0)
	r.tidied(r.locks)
	c.arrives()
	want(t, "owners after the late copy", len(r.owners(r.name)), 0)
}

// A caller is refused by its second copy and leaves. Its first copy arrives when the lock is free, and must
// not take it without a holder.
func TestLateCopyOfARefusedCallerTakesNothing(t *testing.T) {
	t.Parallel()
	for what, wait := range map[string]time.Duration{"single": 0, "waits": time.Second} {
		t.Run(what, func(t *testing.T) {
			r := viaProxy(t)
			ctx := within(t)
			h := must(r.rival().Lock(ctx))(t)
			c := r.holds(isLock, func() error { return refusal(r.lock().TryLock(ctx, wait, 0)) })
			noError(t, c.overtaken())
			redistest.Eventually(t, "an idempotency key", func() bool { return r.idempotencyKeys("*") > 0 })
			noError(t, h.Unlock(ctx))
			c.arrives()
			r.free(r.name)
		})
	}
}

// A late copy takes the lock for a waiter that does not know. When the waiter asks, it gets the lock with a
// full lease.
func TestLateCopyServesItsWaiter(t *testing.T) {
	r := viaProxy(t)
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
	noError(t, r.look.Del(ctx, r.name).Err()) // without a message
	c.arrives()
	want(t, "owners after the late copy", len(r.owners(r.name)), 1)
	noError(t, r.look.PExpire(ctx, r.name, 5*time.Second).Err()) // as if time had passed
	noError(t, r.look.Publish(ctx, "redisson_lock__channel:{"+r.name+"}", "0").Err())
	waiter := comes(t, held)
	noError(t, comes(t, c.result))
	if left := must(r.lock().RemainTimeToLive(ctx))(t); left < 10*time.Second {
		t.Errorf("its lease has ended in %v", left)
	}
	noError(t, waiter.Unlock(ctx))
	wantErr(t, "the hold that was deleted", h.Unlock(ctx), rlock.ErrLost)
	r.free(r.name)
}

// Late first copies of a Relock, of an Unlock, and of the last Unlock leave the next holder alone.
func TestLateCopyLeavesTheNextHolderAlone(t *testing.T) {
	t.Parallel()
	for what, tc := range map[string]struct {
		match func(args []string) bool
		call  func(ctx context.Context, h *rlock.Hold) error
	}{
		"Relock": {isLock, func(ctx context.Context, h *rlock.Hold) error { return h.Relock(ctx) }},
		"Unlock": {isUnlock, func(ctx context.Context, h *rlock.Hold) error {
			return errors.Join(h.Relock(ctx), h.Unlock(ctx))
		}},
		"last Unlock": {isUnlock, func(ctx context.Context, h *rlock.Hold) error { return h.Unlock(ctx) }},
	} {
		t.Run(what, func(t *testing.T) {
			r := viaProxy(t)
			ctx := within(t)
			h := must(r.lock().Lock(ctx))(t)
			c := r.holds(tc.match, func() error { return tc.call(ctx, h) })
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
func TestLateCopyOfAHandOverChangesNothing(t *testing.T) {
	r := viaProxy(t)
	ctx := within(t)
	h, successor := r.successor(ctx)
	c := r.holds(isUnlock, func() error { return h.Unlock(ctx) })
	noError(t, c.overtaken())
	next := comes(t, successor)
	noError(t, next.Unlock(ctx))
	last := must(r.rival().Lock(ctx))(t)
	r.tidied(r.locks)
	c.arrives()
	r.last(ctx, last)
}

// A late copy of a Lock does not undo a Relock.
func TestLateLockKeepsARelock(t *testing.T) {
	r := viaProxy(t)
	ctx := within(t)
	h, c := r.copied(ctx)
	noError(t, h.Relock(ctx))
	c.arrives()
	want(t, "count", must(h.HoldCount(ctx))(t), 2)
	noError(t, h.Unlock(ctx))
	noError(t, h.Unlock(ctx))
}

// copied returns a hold whose request was sent twice; the first copy is on its way.
func (r *proxied) copied(ctx context.Context) (h *rlock.Hold, c *firstCopy) {
	r.Helper()
	c = r.holds(isLock, func() (err error) {
		h, err = r.lock().Lock(ctx)
		return err
	})
	noError(r, c.overtaken())
	return h, c
}

// successor returns a hold, and where the one of a waiter in the same process comes.
func (r *proxied) successor(ctx context.Context) (h *rlock.Hold, successor <-chan *rlock.Hold) {
	r.Helper()
	h = must(r.lock().Lock(ctx))(r)
	before := r.scripts()
	successor = r.starts(ctx, r.lock())
	r.ran(before, 2) // the second one when it was subscribed: from then on it sleeps
	return h, successor
}

// last expects that only h has the lock, and unlocks it.
func (r *proxied) last(ctx context.Context, h *rlock.Hold) {
	r.Helper()
	owners := r.owners(r.name)
	want(r, "owners", len(owners), 1)
	want(r, "the holder", owners[h.Owner()], "1")
	noError(r, h.Unlock(ctx))
	r.free(r.name)
}
