package rlock

import (
	"container/list"
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// A Hold is a lock that is held. In Java a thread owns it; in Go any goroutine may use it, and it is safe
// for concurrent use. It ends with the last Unlock, or when it is lost. The zero Hold is not held.
type Hold struct {
	keys           *keys // nil for the zero Hold and a fake
	number         uint64
	owner          string // the field in Redis, as Java writes it: ID:number
	idempotencyKey string // the key that exists after this hold has ended
	lease          time.Duration
	renewed        bool

	// place is how long the first place in the queue of a fair lock lasts; 0 for other locks.
	place time.Duration

	ctx    context.Context // Context
	cancel context.CancelCauseFunc

	// doubtful says that copies of a request may still arrive, which the idempotency key must outlive.
	doubtful atomic.Bool

	// attempts counts the attempts under way, which the idempotency key must also outlive.
	attempts atomic.Int32

	mu    sync.Mutex
	count int64       // how often the lock is held; 0 after the end
	why   error       // the error of a hold that was lost
	token int64       // the last token drawn
	since time.Time   // when it was taken
	until time.Time   // the lease ends no earlier
	timer *time.Timer // runs expire

	listed *list.Element // in a list of the Client, guarded by its mu
	due    time.Time     // of the next renewal, guarded by the same
}

// newHold returns a hold with a new owner that does not have its lock yet.
func newHold(ctx context.Context, k *keys, lease time.Duration) *Hold {
	h := &Hold{keys: k, lease: lease.Truncate(time.Millisecond)}
	if lease == 0 {
		h.lease, h.renewed = k.client.watchdog.Truncate(time.Millisecond), true
	}
	h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	h.rename()
	return h
}

// rename gives another owner to a hold that does not have its lock.
func (h *Hold) rename() {
	c := h.keys.client
	c.owners.end(h.number)
	h.setOwner(c.owners.next())
	h.doubtful.Store(false)
}

// setOwner sets the owner of the hold by its number.
func (h *Hold) setOwner(number uint64) {
	c := h.keys.client
	h.number, h.owner = number, c.host.ID+":"+strconv.FormatUint(number, 10)
	h.idempotencyKey = h.keys.IdempotencyKey(c.instance + strconv.FormatUint(number, 16))
}

// Owner returns the name of the hold in Redis, ID:number, as Java writes it.
func (h *Hold) Owner() string { return h.owner }

// Context returns a context that ends with the hold. It has the values of the context that the lock was
// taken with, but does not end with that context. Its cause is context.Canceled after the last Unlock,
// ErrLost if the hold was lost, or ErrClosed; for the zero Hold it is ErrNotHeld.
//
// It ends no later than the lease, counted by the clock of this machine from the sending of the last
// request, whether Redis can be reached or not. A suspended process notices the end only when it resumes:
// a resource that must not be written after the end needs the token of a [FencedLock].
func (h *Hold) Context() context.Context {
	if h.ctx == nil { // the zero Hold
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(ErrNotHeld)
		return ctx
	}
	return h.ctx
}

// Token returns the last token of this hold, if the lock is a [FencedLock]; 0 for other locks. Each hold
// and each Relock gets a greater token than all before.
func (h *Hold) Token() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.token
}

// begin starts a hold that was granted, or gives it up if its lease expired before the reply arrived or the
// Client was closed.
func (h *Hold) begin(a lockReply) error {
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
		h.keys.client.cleaner.giveUp(h)
	}
	return err
}

// Err returns nil while the process believes that it holds the lock; it does not ask Redis. Then it
// returns ErrNotHeld, which is also an ErrLost if the hold was lost; or ErrClosed.
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

// Relock takes the lock once more, with a new lease (RLock.lock by the holding thread), so that it needs
// one more Unlock. After an error it is held as often as before. Errors are ErrNotHeld if the hold has
// ended, and those of the package.
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
	a, err := ask(ctx, h.keys, func(ctx context.Context) (lockReply, error) {
		return h.call(ctx, count)
	}, nil)
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
	if last { // all other Relocks were unlocked meanwhile
		h.stop(context.Canceled)
		h.keys.client.cleaner.giveUp(h)
	}
	if ended && err == nil { // its lease expired meanwhile, so the renewal has to be undone
		h.keys.client.cleaner.giveUp(h)
		return h.Err()
	}
	return err
}

// Why a hold was lost: by the clock of this process, or because Redis no longer has it.
const (
	leaseOver = "its lease has expired"
	gone      = "it was unlocked by force or deleted, or its lease has expired"
)

// Unlock ends the hold, or one Relock of it (RLock.unlock). Errors are ErrNotHeld if the hold has ended
// (also an ErrLost if it was lost), and those of the package.
//
// The last Unlock ends the hold whatever it returns, even if ctx has ended: the lock is given back in the
// background once Redis can be reached, and is free at the latest when its lease expires.
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
	held, err := leave(ctx, context.WithoutCancel(ctx), h.keys, func(ctx context.Context) (bool, error) {
		if count == 0 {
			return h.release(ctx)
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

// lessen lowers the hold count in Redis to count, and reports whether the lock was held.
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

// unlock runs the script, after which the owner holds the lock count times. next is the waiter to hand the
// lock to, nil for none; lease is that of the remaining hold, or of next.
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
		Script: unlockScript, Done: did, Keys: []any{k.Hash, h.idempotencyKey},
		Args: []any{h.owner, count, lease.Milliseconds(), rememberFor.Milliseconds(), k.sharded(), k.Channel},
	}
	if k.fenced {
		call.Keys = append(call.Keys, k.Token)
	}
	return call
}

// release ends the hold in Redis, and reports whether it was held. It hands the lock to this process's
// first waiter, or notifies all waiters.
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
		c.cleaner.giveUp(h)
	case h.attempts.Load() == 0 && !h.doubtful.Load(): // in this order: an attempt sets doubtful, then ends
		c.cleaner.remove(h.idempotencyKey)
	}
	if next != nil && err == nil && reply.At(0) == handedOn {
		next.handed(ctx, lockReply{granted: true, number: reply.At(1), sent: sent})
		return true, nil
	}
	notified := reply.At(1)
	if next != nil {
		next.notHanded(unsure)
		notified = 0 // no other client needs to go first
	}
	c.unlocked(h, notified)
	return reply.At(0) > 0, err
}

// handedOn is the reply of unlock.lua if the next owner now holds the lock.
const handedOn = 2

// extend extends the lease after a request, sent at sent, that has renewed it. h.mu is held.
func (h *Hold) extend(sent time.Time) {
	if until := sent.Add(h.lease); until.After(h.until) {
		h.until = until
	}
}

// expire ends the hold if its lease has expired.
func (h *Hold) expire() {
	h.mu.Lock()
	left := time.Until(h.until)
	if left > 0 && h.count > 0 {
		h.timer.Reset(left)
	}
	h.mu.Unlock()
	// A late renewal may still arrive, and fair callers of old Redissons get the lock only by a message.
	if left <= 0 && h.end(h.lost(leaseOver)) && (h.renewed || h.keys.fair) {
		h.keys.client.cleaner.giveUp(h)
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

// stop releases the resources of a hold that has ended.
func (h *Hold) stop(cause error) {
	h.keys.client.drop(h)
	h.mu.Lock()
	h.timer.Stop()
	since := h.since
	h.mu.Unlock()
	h.cancel(cause)
	h.observeEnd(since, cause)
}

// IsHeld asks Redis whether this hold has the lock (RLock.isHeldByCurrentThread). It does not end the Hold
// or its Context.
func (h *Hold) IsHeld(ctx context.Context) (bool, error) {
	if h.unbound() {
		return h.Err() == nil, nil
	}
	return onMaster(ctx, h.keys, func(rdb redis.Cmdable) (bool, error) {
		return rdb.HExists(ctx, h.keys.Hash, h.owner).Result()
	})
}

// HoldCount asks Redis how often this hold has the lock: 0 after its end (RLock.getHoldCount).
func (h *Hold) HoldCount(ctx context.Context) (int64, error) {
	if h.unbound() {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.count, nil
	}
	return onMaster(ctx, h.keys, func(rdb redis.Cmdable) (int64, error) {
		return number(rdb.HGet(ctx, h.keys.Hash, h.owner))
	})
}
