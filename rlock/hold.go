package rlock

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// A Hold is a lock that is held. In Java this belongs to a thread; in Go it belongs to
// whoever has the Hold, which is safe for concurrent use. It ends with the last Unlock,
// or when it is lost. The zero Hold is not held.
type Hold struct {
	keys    *keys // nil for the zero Hold and a fake
	number  uint64
	owner   string // the field in Redis, as Java writes it: ID:number
	latch   string // the key that says that this hold has ended
	lease   time.Duration
	renewed bool

	// place is how long its place in the queue of a fair lock lasts at first; 0 if it
	// does not wait for one.
	place time.Duration

	ctx    context.Context // Context
	cancel context.CancelCauseFunc

	// doubtful says that copies of a request may still be on their way, which the
	// latch must outlive.
	doubtful atomic.Bool

	// attempts is how many attempts are under way: the latch must outlive those, too.
	attempts atomic.Int32

	mu    sync.Mutex
	count int64       // how often it is held; 0 when it has ended
	why   error       // why it has ended, if it was lost
	token int64       // the last one that was given
	since time.Time   // when it was taken
	until time.Time   // the lease lasts so long at least
	timer *time.Timer // runs expire

	listed *list.Element // in a list of the Client, guarded by its mu
	due    time.Time     // of the next renewal, guarded by the same
}

// newHold returns a hold that is not held yet. Its owner is new.
func newHold(ctx context.Context, k *keys, lease time.Duration) *Hold {
	h := &Hold{keys: k, lease: lease.Truncate(time.Millisecond)}
	if lease == 0 {
		h.lease, h.renewed = k.client.watchdog.Truncate(time.Millisecond), true
	}
	h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	h.rename()
	return h
}

// rename gives a hold that is not held another owner.
func (h *Hold) rename() {
	c := h.keys.client
	c.owners.end(h.number)
	h.name(c.owners.next())
	h.doubtful.Store(false)
}

// name makes the hold that of an owner.
func (h *Hold) name(number uint64) {
	h.number, h.owner = number, h.keys.ownerName(number)
	h.latch = h.keys.Latch(fmt.Sprintf("%s%016x", h.keys.client.instance, number))
}

// Owner returns the name of the hold in Redis, ID:number, as Java writes it.
func (h *Hold) Owner() string { return h.owner }

// Context returns a context that ends with the hold. It has the values of the context
// that the lock was taken with, but does not end with it. Its cause is
// context.Canceled after the last Unlock, an ErrLost if the hold was lost, or
// ErrClosed; ErrNotHeld for the zero Hold.
//
// It ends at the latest when the lease has run out by the clock of this machine,
// counted from when its request was sent, whether Redis can be reached or not. A
// process that is stopped meanwhile knows only when it goes on: what must not be
// written too late needs the token of a [FencedLock].
func (h *Hold) Context() context.Context {
	if h.ctx == nil { // the zero Hold
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(ErrNotHeld)
		return ctx
	}
	return h.ctx
}

// Token returns the last token of this hold, if the lock is a [FencedLock]; 0 for other
// locks. Each hold gets a greater one than all before it, and so does each Relock.
func (h *Hold) Token() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.token
}

// begin notes that the lock is held. If its lease has run out before the reply was there, or
// the Client was closed, it is given up.
func (h *Hold) begin(a answer) error {
	h.mu.Lock()
	h.count, h.token, h.since, h.until = 1, a.number, a.sent, a.sent.Add(h.lease)
	if !h.keys.fenced {
		h.token = 0
	}
	h.timer = time.AfterFunc(time.Until(h.until), h.expire)
	h.mu.Unlock()
	h.keys.client.keep(h)
	if h.keys.client.host.Ctx.Err() != nil {
		h.end(rratelimiter.ErrClosed)
	}
	h.expire()
	err := h.Err()
	if err != nil {
		h.keys.client.janitor.giveUp(h)
	}
	return err
}

// Err returns nil as long as the lock is held, as far as is known without asking Redis.
// After that it returns an ErrNotHeld, which is an ErrLost if the hold was lost; or ErrClosed.
func (h *Hold) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.why != nil:
		return h.why
	case h.count == 0:
		return h.notHeld()
	case h.unbound():
		return nil
	case h.keys.client.host.Ctx.Err() != nil:
		return rratelimiter.ErrClosed
	case !time.Now().Before(h.until): // expire is about to end it
		return h.lost(leaseOver)
	}
	return nil
}

// Relock holds the lock once more, with a new lease (RLock.lock by the thread that has
// it): then one more Unlock is needed. After an error it is not held once more. Errors
// are ErrNotHeld if the hold has ended, and those of the package.
func (h *Hold) Relock(ctx context.Context) error {
	h.mu.Lock()
	if h.count == 0 {
		h.mu.Unlock()
		return h.Err()
	}
	if h.unbound() {
		defer h.mu.Unlock()
		return h.relockFake(ctx)
	}
	h.count++
	count := h.count
	h.mu.Unlock()
	a, err := ask(ctx, h.keys, func(ctx context.Context) (answer, error) { return h.call(ctx, count) }, nil)
	if err == nil && a.ended {
		h.end(h.lost(gone))
		return h.Err()
	}
	h.mu.Lock()
	ended := h.count == 0
	switch {
	case ended:
	case err != nil:
		h.count--
	default:
		h.extend(a.sent)
		if h.keys.fenced {
			h.token = max(h.token, a.number)
		}
	}
	last := !ended && h.count == 0
	h.mu.Unlock()
	if last { // the others were unlocked meanwhile
		h.stop(context.Canceled)
		h.keys.client.janitor.giveUp(h)
	}
	if ended && err == nil { // its lease has run out meanwhile, and was renewed in vain
		h.keys.client.janitor.giveUp(h)
		return h.Err()
	}
	return err
}

// How a hold was lost: by the clock of this process, or as Redis does not know it any more.
const (
	leaseOver = "its lease has run out"
	gone      = "somebody else has unlocked or deleted it, or its lease has run out"
)

// Unlock ends the hold, or one Relock of it (RLock.unlock). Errors are ErrNotHeld if the
// hold has ended, which is an ErrLost if it was lost, and those of the package.
//
// The last Unlock ends the hold whatever it returns, and also if ctx has ended: the lock
// is given back in the background as soon as Redis can be reached. If that is not before
// its lease has run out, it is free by then.
func (h *Hold) Unlock(ctx context.Context) error {
	h.mu.Lock()
	if h.count == 0 {
		h.mu.Unlock()
		return h.Err()
	}
	if h.unbound() {
		defer h.mu.Unlock()
		return h.unlockFake()
	}
	h.count--
	count := h.count
	h.mu.Unlock()
	if count == 0 {
		h.stop(context.Canceled)
	}
	held, err := leave(ctx, h.keys, func(ctx context.Context) (bool, error) {
		if count == 0 {
			return h.release(context.WithoutCancel(ctx))
		}
		return h.lessen(ctx, count)
	}, nil)
	if err != nil || held {
		return err
	}
	err = h.lost(gone)
	h.end(err)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.why = err
	return err
}

// lessen tells Redis how often the lock is still held.
func (h *Hold) lessen(ctx context.Context, count int64) (bool, error) {
	sent := time.Now()
	reply, _, err := h.unlock(ctx, count, h.lease, nil)
	if err == nil && reply.At(0) == 1 {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.extend(sent)
	}
	return err == nil && (reply.At(0) == 1 || h.Context().Err() != nil), err
}

// unlock runs the script. next is the owner to hand the lock to, if there is one.
func (h *Hold) unlock(ctx context.Context, count int64, lease time.Duration, next *waiter) (
	reply redisx.Reply, unsure bool, err error,
) {
	call := h.unlockCall(count, lease)
	if next != nil {
		call.Args = append(call.Args, next.hold.owner)
	}
	return h.keys.client.host.Runner.Run(ctx, &call)
}

// unlockCall returns the call after which the owner holds the lock count times.
func (h *Hold) unlockCall(count int64, lease time.Duration) redisx.Call {
	k := h.keys
	if k.fair && count == 0 {
		return h.fairUnlockCall()
	}
	call := redisx.Call{
		Script: unlockScript, Done: did, Keys: []any{k.Hash, h.latch},
		Args: []any{h.owner, count, lease.Milliseconds(), latchFor.Milliseconds(), k.sharded(), k.Channel},
	}
	if k.fenced {
		call.Keys = append(call.Keys, k.Token)
	}
	return call
}

// release ends the hold in Redis, and reports whether it was held. It hands the lock on
// to who waits first in this process, or tells all that wait.
func (h *Hold) release(ctx context.Context) (held bool, err error) {
	c := h.keys.client
	next := c.offer(h.keys)
	lease := h.lease
	if next != nil {
		lease = next.hold.lease
	}
	sent := time.Now()
	reply, unsure, err := h.unlock(ctx, 0, lease, next)
	c.owners.end(h.number)
	if unsure {
		h.doubtful.Store(true)
	}
	switch {
	case err != nil:
		c.janitor.giveUp(h)
	case h.attempts.Load() == 0 && !h.doubtful.Load(): // in this order: an attempt doubts before it ends
		c.janitor.remove(h.latch)
	}
	if next != nil && err == nil && reply.At(0) == handedOn {
		next.handed(ctx, answer{granted: true, number: reply.At(1), sent: sent})
		return true, nil
	}
	told := reply.At(1)
	if next != nil {
		next.notHanded(unsure)
		told = 0 // others have no right to go first
	}
	c.told(h, told)
	return reply.At(0) > 0, err
}

// handedOn is the reply of unlock.lua when somebody else holds the lock now.
const handedOn = 2

// extend notes that the lease was renewed by a request that was sent at a time. h.mu is
// held.
func (h *Hold) extend(sent time.Time) {
	if until := sent.Add(h.lease); until.After(h.until) {
		h.until = until
	}
}

// expire ends the hold if its lease has run out.
func (h *Hold) expire() {
	h.mu.Lock()
	left := time.Until(h.until)
	if left > 0 && h.count > 0 {
		h.timer.Reset(left)
	}
	h.mu.Unlock()
	if left <= 0 && h.end(h.lost(leaseOver)) && h.renewed {
		h.keys.client.janitor.giveUp(h) // a renewal may have come later than its reply
	}
}

// end ends a hold that was lost, and reports whether it was held.
func (h *Hold) end(why error) bool {
	h.mu.Lock()
	held := h.count > 0
	if held {
		h.count, h.why = 0, why
	}
	h.mu.Unlock()
	if held {
		h.stop(why)
		h.keys.client.owners.end(h.number)
	}
	return held
}

// stop stops what a hold that has ended had running.
func (h *Hold) stop(cause error) {
	h.keys.client.drop(h)
	h.mu.Lock()
	h.timer.Stop()
	since := h.since
	h.mu.Unlock()
	h.cancel(cause)
	h.observeEnd(since, cause)
}

// IsHeld asks Redis whether the lock is held by this hold (RLock.isHeldByCurrentThread).
// It does not change what the Hold knows: see Context for that.
func (h *Hold) IsHeld(ctx context.Context) (bool, error) {
	if h.unbound() {
		return h.Err() == nil, nil
	}
	return onMaster(ctx, h.keys, func(rdb redis.Cmdable) (bool, error) {
		return rdb.HExists(ctx, h.keys.Hash, h.owner).Result()
	})
}

// HoldCount asks Redis how often this hold has the lock, 0 if it has ended
// (RLock.getHoldCount).
func (h *Hold) HoldCount(ctx context.Context) (int64, error) {
	if h.unbound() {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.count, nil
	}
	return onMaster(ctx, h.keys, func(rdb redis.Cmdable) (int64, error) {
		n, err := rdb.HGet(ctx, h.keys.Hash, h.owner).Int64()
		if err == redis.Nil {
			return 0, nil
		}
		return n, err
	})
}
