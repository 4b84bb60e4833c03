package rlock

import (
	"context"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// An answer is what a lock said to a request to hold it.
type answer struct {
	granted bool
	ended   bool  // the hold has ended before
	number  int64 // the token; if it was refused, the ms that others hold the lock, -1 without end
	holder  int64 // if it was refused: digits of who holds it, 0 if that is not of this process
	sent    time.Time
}

// attempt takes the lock if it is free. seen is what sees the answer first, also if the caller
// has left.
func (h *Hold) attempt(ctx context.Context, seen func(a answer, err error)) (answer, error) {
	a, err := ask(ctx, h.keys, func(ctx context.Context) (answer, error) {
		a, err := h.underWay(ctx)
		seen(a, err)
		return a, err
	},
		func(a answer, err error) { // the caller has left
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

// underWay makes one attempt, and counts it until it is over. Nothing is sent once ctx has ended: a
// release that came after that may have found no attempt under way, and have had the latch removed.
func (h *Hold) underWay(ctx context.Context) (answer, error) {
	h.attempts.Add(1)
	defer h.attempts.Add(-1)
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	a, err := h.call(ctx, 1)
	if err == nil && !a.granted && h.endAgain(ctx, a.holder) {
		return h.call(ctx, 1)
	}
	return a, err
}

// endAgain ends the hold of an owner that has ended before, and reports whether it was held: a
// failover may have forgotten the unlock.
func (h *Hold) endAgain(ctx context.Context, digits int64) bool {
	number, ok := h.keys.client.owners.ended(digits)
	if !ok {
		return false
	}
	former := &Hold{keys: h.keys}
	former.name(number)
	reply, _, err := former.unlock(ctx, 0, 0, nil)
	return err == nil && reply.At(0) == 1
}

// unseen is for who need not see an answer first.
func unseen(answer, error) {}

// forgo gives up a hold that was not granted, if a copy of its request may still be on
// the way or carried out: it would take the lock for nobody.
func (h *Hold) forgo() {
	if h.doubtful.Load() {
		h.keys.client.janitor.giveUp(h)
	}
}

// call asks once to hold the lock count times.
func (h *Hold) call(ctx context.Context, count int64) (answer, error) {
	if err := h.keys.client.probe(ctx); err != nil {
		return answer{}, err
	}
	call := h.lockCall(count)
	a := answer{sent: time.Now()}
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

// lockCall returns the call that asks to hold the lock count times.
func (h *Hold) lockCall(count int64) redisx.Call {
	if h.keys.fair && count == 1 {
		return h.fairLockCall()
	}
	call := redisx.Call{
		Script: lockScript, Done: did, Keys: []any{h.keys.Hash, h.latch},
		Args: []any{h.owner, h.lease.Milliseconds(), count},
	}
	if h.keys.fenced {
		call.Keys = append(call.Keys, h.keys.Token)
	}
	return call
}
