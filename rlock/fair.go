package rlock

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// A FairLock is a Lock that serves callers in the order of their requests, across processes and
// languages (Redisson's RFairLock).
//
// A waiting caller has a place in a queue in Redis. It leaves the queue when its wait or its context ends,
// or its Client is closed. If its process dies, its place expires within 30 s, or up to 5 minutes later for
// each Java caller before it. A Java caller whose process dies keeps its place for its whole wait, 5
// minutes by default. Callers behind a place do not get the lock before the place expires.
//
// A FairLock needs a name of its own: a Lock or FencedLock of the same name ignores the queue.
type FairLock struct{ handle }

// FairLock returns the fair lock called name (RedissonClient.getFairLock). See Client.Lock. If name is
// mapped, Redisson before 3.52.0 uses another queue.
func (c *Client) FairLock(name string) *FairLock {
	k := c.keysOf(name)
	k.fair = true
	return &FairLock{handle{k}}
}

// TryLock is Lock.TryLock, except that a single attempt does not overtake waiting callers: it returns false
// while there are any. A caller whose wait has ended leaves the queue in the background, and blocks it
// until then.
func (l *FairLock) TryLock(ctx context.Context, wait, lease time.Duration) (*Hold, bool, error) {
	return l.handle.TryLock(ctx, wait, lease)
}

const (
	// placeFor is how long a place in the queue lasts without a renewal: as long as the default lease.
	placeFor = 30 * time.Second

	// grace is how long the place of a caller lasts beyond its wait.
	grace = time.Second
)

// fairKeys returns the keys that the scripts of a fair lock share.
func (k *keys) fairKeys() []any { return []any{k.Hash, k.Queue, k.Timeout, k.Channel} }

// fairLockCall returns the call that takes a fair lock or a place in its queue.
func (h *Hold) fairLockCall() redisx.Call {
	k := h.keys
	return redisx.Call{
		Script: fairLockScript, Done: did, Keys: append(k.fairKeys(), h.idempotencyKey),
		Args: []any{k.sharded(), h.owner, h.lease.Milliseconds(), h.place.Milliseconds()},
	}
}

// fairUnlockCall returns the call that ends a hold or a place.
func (h *Hold) fairUnlockCall() redisx.Call {
	k := h.keys
	return redisx.Call{
		Script: fairUnlockScript, Done: did, Keys: append(k.fairKeys(), h.idempotencyKey),
		Args: []any{k.sharded(), h.owner, rememberFor.Milliseconds()},
	}
}

// queueUp returns true when the hold has its fair lock. Otherwise it leaves the queue, perhaps in the
// background.
func (h *Hold) queueUp(ctx context.Context, req request) (granted bool, err error) {
	h.place = placeFor
	if !req.forever {
		h.place = min(placeFor, min(req.wait, placeFor)+grace)
	}
	w := &queued{hold: h, look: make(chan struct{}, 1)}
	asked := time.Now()
	by, _ := ctx.Deadline()
	granted, err = w.wait(ctx)
	if err == errTimeUp && !w.refusedOnce() {
		err = h.keys.timeUp(asked, by)
	}
	if !granted {
		// On a closed Client keep releases the places, so the caller must still be among the waiters here.
		h.keys.client.host.Work(func(context.Context) { _, _ = h.release(context.WithoutCancel(ctx)) })
	}
	w.leave()
	return granted, err
}

// A queued is a hold that waits for a fair lock.
type queued struct {
	hold  *Hold
	queue *queue // nil until the lock was refused; guarded by the mu of the Client
	waits bool   // guarded by the same
	left  bool   // guarded by the same

	// behind is the last caller of this process that entered the queue earlier, nil if there was none.
	behind *queued

	// look signals that the caller should ask again. It has a capacity of one.
	look chan struct{}
}

// wait returns true when the hold has the lock. It asks at once, and then when a message or the queue says
// that the caller is the first and the lock is free.
func (w *queued) wait(ctx context.Context) (bool, error) {
	h := w.hold
	c := h.keys.client
	w.behind = c.lastQueued(h.keys)
	var notified <-chan struct{}
	cancel := func() {}
	defer func() { cancel() }()
	for {
		a, err := h.attempt(ctx, func(a lockReply, err error) { w.refused(ctx, a, err) })
		switch {
		case a.granted:
			return err == nil, err
		case a.ended: // only keep gives up the place of a waiting caller
			return false, rratelimiter.ErrClosed
		case err != nil && !redis.IsTryAgainError(err):
			return false, err
		}
		if notified == nil {
			notified, cancel = h.keys.subscribe(h.keys.Channel + ":" + h.owner)
		}
		if err := w.sleep(ctx, notified); err != nil {
			return false, err
		}
	}
}

// sleep returns nil when the caller has to ask.
func (w *queued) sleep(ctx context.Context, notified <-chan struct{}) error {
	for {
		select {
		case <-notified:
			if w.missedNothing() {
				continue
			}
		case <-w.look:
		case <-ctx.Done():
			return ended(ctx)
		case <-w.hold.keys.client.host.Ctx.Done():
			return rratelimiter.ErrClosed
		}
		return nil
	}
}

// missedNothing reports whether a signal is only that of the new subscription, and no message was missed
// before it: an earlier caller still waits, so this one is not the first.
func (w *queued) missedNothing() bool {
	c := w.hold.keys.client
	c.mu.Lock()
	defer c.mu.Unlock()
	before := w.behind
	w.behind = nil
	return before != nil && before.waits
}

// refused handles a reply that refuses the lock. Close waits for it: keep gives up the places of a closed
// Client, except that of a caller whose reply arrives later, which refused gives up.
func (w *queued) refused(ctx context.Context, a lockReply, err error) {
	switch {
	case a.granted || a.ended:
		return
	case redis.IsTryAgainError(err): // the slot of the lock is on its way to another node
		a.number = again.Milliseconds()
	case err != nil:
		return
	}
	if !w.queues(a.number) {
		_, _ = w.hold.release(context.WithoutCancel(ctx))
	}
}

// refusedOnce reports whether Redis has replied that the caller has to wait.
func (w *queued) refusedOnce() bool {
	c := w.hold.keys.client
	c.mu.Lock()
	defer c.mu.Unlock()
	return w.queue != nil
}

// queues adds the caller to the waiters of this process, and schedules a look at the queue by the hint of the
// script. It returns false if the Client is closed.
func (w *queued) queues(hint int64) bool {
	c := w.hold.keys.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.left {
		return true // attempt gives up its place
	}
	if w.queue == nil {
		w.queue = c.enterQueue(w)
	}
	if w.queue == nil || c.host.Ctx.Err() != nil {
		return false
	}
	w.waits = true
	w.queue.lookIn(hint)
	return true
}

// leave removes the caller from the queue in this process.
func (w *queued) leave() {
	c := w.hold.keys.client
	c.mu.Lock()
	defer c.mu.Unlock()
	q := w.queue
	w.waits, w.left, w.behind = false, true, nil
	if q == nil || c.host.Ctx.Err() != nil { // keep still needs it
		return
	}
	i := slices.Index(q.waiters, w)
	q.waiters = slices.Delete(q.waiters, i, i+1)
	signal(q.sooner)
}
