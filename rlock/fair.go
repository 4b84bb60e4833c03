package rlock

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// A FairLock is a Lock that callers get in the order in which they asked for it, whatever
// process or language they belong to (Redisson's RFairLock).
//
// A caller that waits has a place in a queue in Redis. It leaves the queue when its wait
// is over, its context ends or its Client is closed. If its process dies, its place ends
// within 30 s, or up to 5 minutes later for each caller of Java that stood before it. A
// caller of Java whose process dies keeps its place for its whole wait, 5 minutes by
// default. Nobody behind a place gets the lock before it ends.
//
// A Lock, a FencedLock and a FairLock must not have the same name: the others do not
// know the queue.
type FairLock struct{ handle }

// FairLock returns the fair lock called name (RedissonClient.getFairLock). What is said of
// Client.Lock holds for it. If name is mapped, Redisson before 3.52.0 does not see the
// same queue.
func (c *Client) FairLock(name string) *FairLock {
	k := c.keysOf(name)
	k.fair = true
	return &FairLock{handle{k}}
}

// TryLock is that of a Lock, but that a single attempt does not go before others who
// wait: it returns false as long as there are any. Who has waited in vain leaves the queue
// in the background, and counts until then.
func (l *FairLock) TryLock(ctx context.Context, wait, lease time.Duration) (*Hold, bool, error) {
	return l.handle.TryLock(ctx, wait, lease)
}

const (
	// placeFor is how long a place in the queue lasts that is not renewed: as long as
	// a lock whose holder has died, by default.
	placeFor = 30 * time.Second

	// grace is how long the place of a caller lasts beyond its wait.
	grace = time.Second
)

// fairKeys are the keys of a fair lock, as its scripts want them.
func (k *keys) fairKeys() []any { return []any{k.Hash, k.Queue, k.Timeout, k.Channel} }

// fairLockCall returns the call that asks to hold a fair lock.
func (h *Hold) fairLockCall() redisx.Call {
	k := h.keys
	return redisx.Call{
		Script: fairLockScript, Done: did, Keys: append(k.fairKeys(), h.latch),
		Args: []any{k.sharded(), h.owner, h.lease.Milliseconds(), h.place.Milliseconds()},
	}
}

// fairUnlockCall returns the call that ends a hold or a place.
func (h *Hold) fairUnlockCall() redisx.Call {
	k := h.keys
	return redisx.Call{
		Script: fairUnlockScript, Done: did, Keys: append(k.fairKeys(), h.latch),
		Args: []any{k.sharded(), h.owner, latchFor.Milliseconds()},
	}
}

// queueUp returns true when the hold has its fair lock. Otherwise it has left the queue,
// or is about to.
func (h *Hold) queueUp(ctx context.Context, req request) (granted bool, err error) {
	h.place = placeFor
	if !req.forever {
		h.place = min(placeFor, min(req.wait, placeFor)+grace)
	}
	w := &queued{hold: h, look: make(chan struct{}, 1)}
	asked := time.Now()
	by, _ := ctx.Deadline()
	granted, err = w.wait(ctx)
	if err == errTimeUp && !w.answered() {
		err = h.keys.timeUp(asked, by)
	}
	if !granted {
		// On a closed Client that is done by keep, so the caller is still among the waiters here.
		h.keys.client.host.Work(func(context.Context) { _, _ = h.release(context.WithoutCancel(ctx)) })
	}
	w.leave()
	return granted, err
}

// A queued is a hold that waits for a fair lock.
type queued struct {
	hold  *Hold
	queue *queue // nil as long as the lock was not refused; guarded by the mu of the Client
	waits bool   // guarded by the same
	left  bool   // guarded by the same

	// behind was in the queue before, nil if nobody of this process was.
	behind *queued

	// look says that it should ask again. It has a capacity of one.
	look chan struct{}
}

// wait asks until the hold has the lock: when a message says that it is the first and
// the lock is free, and when the queue says so.
func (w *queued) wait(ctx context.Context) (bool, error) {
	h := w.hold
	c := h.keys.client
	w.behind = c.lastQueued(h.keys)
	var told <-chan struct{}
	cancel := func() {}
	defer func() { cancel() }()
	for {
		a, err := h.attempt(ctx, func(a answer, err error) { w.refused(ctx, a, err) })
		switch {
		case a.granted:
			return err == nil, err
		case a.ended: // nobody but keep takes the place of a caller that waits
			return false, rratelimiter.ErrClosed
		case err != nil && !redis.IsTryAgainError(err):
			return false, err
		}
		if told == nil {
			told, cancel = h.keys.subscribe(h.keys.Channel + ":" + h.owner)
		}
		if err := w.sleep(ctx, told); err != nil {
			return false, err
		}
	}
}

// sleep returns when it is time to ask.
func (w *queued) sleep(ctx context.Context, told <-chan struct{}) error {
	for {
		select {
		case <-told:
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

// missedNothing reports whether a signal is that the subscription is there, and there was
// no message before it: the caller is not the first, for one before it still waits.
func (w *queued) missedNothing() bool {
	c := w.hold.keys.client
	c.mu.Lock()
	defer c.mu.Unlock()
	before := w.behind
	w.behind = nil
	return before != nil && before.waits
}

// refused notes that the lock was refused, if it was, and when to look again. It runs where Close
// waits for it: from then on keep gives up the place of the caller, and before that refused does.
func (w *queued) refused(ctx context.Context, a answer, err error) {
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

// answered reports whether Redis has told the caller that it has to wait.
func (w *queued) answered() bool {
	c := w.hold.keys.client
	c.mu.Lock()
	defer c.mu.Unlock()
	return w.queue != nil
}

// queues has the caller among the waiters of this process, and the queue look when a hint says
// so. It reports false if the Client is closed.
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

// leave takes the caller off the queue in this process.
func (w *queued) leave() {
	c := w.hold.keys.client
	c.mu.Lock()
	defer c.mu.Unlock()
	q := w.queue
	w.waits, w.left, w.behind = false, true, nil
	if q == nil || c.host.Ctx.Err() != nil { // then keep wants to know it
		return
	}
	i := slices.Index(q.waiters, w)
	q.waiters = slices.Delete(q.waiters, i, i+1)
	q.poke()
}

// tell has a caller ask for the lock.
func (w *queued) tell() {
	select {
	case w.look <- struct{}{}:
	default: // it is about to ask
	}
}
