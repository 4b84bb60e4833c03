package rlock

import (
	"context"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// A lockReply is the reply to a request for a lock.
type lockReply struct {
	granted bool
	ended   bool  // the hold has ended
	number  int64 // the token; on a refusal the ms until the lease expires, -1 if it does not
	holder  int64 // of a refusal: digits of the holder, or of the next in a queue; 0 if of another process
	sent    time.Time
}

// attempt takes the lock if it is free. seen gets the reply first, even if the caller has left.
func (h *Hold) attempt(ctx context.Context, seen func(a lockReply, err error)) (lockReply, error) {
	a, err := ask(ctx, h.keys, func(ctx context.Context) (lockReply, error) {
		a, err := h.underWay(ctx)
		seen(a, err)
		return a, err
	},
		func(a lockReply, err error) { // the caller has left
			if err == nil && (a.granted || h.place > 0) {
				_, _ = h.release(context.WithoutCancel(ctx))
				return
			}
			h.forgo()
		})
	if err == nil && a.granted {
		err = h.begin(a)
	}
	return a, err
}

// underWay makes one attempt, and counts it until it returns. It sends nothing after the end of ctx: a
// release may have found no attempt under way then, and scheduled the removal of the idempotency key.
func (h *Hold) underWay(ctx context.Context) (lockReply, error) {
	h.attempts.Add(1)
	defer h.attempts.Add(-1)
	if err := ctx.Err(); err != nil {
		return lockReply{}, err
	}
	a, err := h.call(ctx, 1)
	if err == nil && !a.granted && h.endAgain(ctx, a.holder) {
		return h.call(ctx, 1)
	}
	return a, err
}

// endAgain unlocks the lock of an owner of this Client that has ended, or removes its place in a queue, and
// reports whether the lock was held: a failover may have forgotten the unlock.
func (h *Hold) endAgain(ctx context.Context, digits int64) bool {
	number, ok := h.keys.client.owners.ended(digits)
	if !ok {
		return false
	}
	former := &Hold{keys: h.keys}
	former.setOwner(number)
	reply, _, err := former.unlock(ctx, 0, 0, nil)
	return err == nil && reply.At(0) == 1
}

// unseen ignores a reply.
func unseen(lockReply, error) {}

// forgo gives up a hold that was not granted if a copy of its request may still be carried out: the lock
// would be held without a holder.
func (h *Hold) forgo() {
	if h.doubtful.Load() {
		h.keys.client.cleaner.giveUp(h)
	}
}

// call sends one request to hold the lock count times.
func (h *Hold) call(ctx context.Context, count int64) (lockReply, error) {
	if err := h.keys.client.probe(ctx); err != nil {
		return lockReply{}, err
	}
	call := h.lockCall(count)
	a := lockReply{sent: time.Now()}
	reply, unsure, err := h.keys.client.host.Runner.Run(ctx, &call)
	if unsure {
		h.doubtful.Store(true)
	}
	if err != nil {
		return a, err
	}
	a.granted, a.ended, a.number, a.holder = reply.At(0) == 1, reply.At(0) < 0, reply.At(1), reply.At(2)
	return a, nil
}

// lockCall returns the script call after which the owner holds the lock count times.
func (h *Hold) lockCall(count int64) redisx.Call {
	if h.keys.fair && count == 1 {
		return h.fairLockCall()
	}
	call := redisx.Call{
		Script: lockScript, Done: did, Keys: []any{h.keys.Hash, h.idempotencyKey},
		Args: []any{h.owner, h.lease.Milliseconds(), count},
	}
	if h.keys.fenced {
		call.Keys = append(call.Keys, h.keys.Token)
	}
	return call
}
