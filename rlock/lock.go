package rlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// A Lock has at most one holder (Redisson's RLock). It is a handle on a lock in Redis, and is safe for
// concurrent use. Its holder has a [Hold]. Code that takes a [Locker] can be tested without Redis.
type Lock struct{ handle }

// A handle is embedded by all kinds of locks, because embedding Lock would hide its method Lock behind the
// field.
type handle struct{ keys *keys }

// Name returns the name of the lock.
func (l *handle) Name() string { return l.keys.name }

// Lock waits until the lock is free, and takes it (RLock.lock). The hold is renewed until it ends.
//
// It waits for the lock, not for Redis: if Redis does not reply, the error is ErrNoAnswer. If ctx ends
// first, errors.Is(err, ctx.Err()) holds. After an error the lock is not held: a late grant is given
// back. Errors are those of the package.
func (l *handle) Lock(ctx context.Context) (*Hold, error) {
	h, _, err := l.keys.acquire(ctx, request{forever: true})
	return h, err
}

// LockFor is Lock for a hold that is not renewed and expires after lease (RLock.lock with a lease time).
// lease is at least 1 ms and at most 3,660 days; a fraction of a ms is truncated.
func (l *handle) LockFor(ctx context.Context, lease time.Duration) (*Hold, error) {
	if err := l.keys.checkLease(lease); err != nil && l.keys.err == nil {
		return nil, err
	}
	h, _, err := l.keys.acquire(ctx, request{forever: true, lease: lease})
	return h, err
}

// TryLock takes the lock if it is free within wait, and reports whether it did (RLock.tryLock). If the lock
// was not free, the Hold and the error are nil. A wait of 0 or less means a single attempt, which may
// overtake waiting callers. With a lease of 0 the hold is renewed; any other lease is as for LockFor.
//
// It returns by the end of wait, whatever Redis does. The error is ErrNoAnswer if a request was sent at
// least 30 ms earlier and got no reply; a late grant is given back. A single attempt returns by the end of
// ctx, or without one when go-redis gives up.
func (l *handle) TryLock(ctx context.Context, wait, lease time.Duration) (*Hold, bool, error) {
	if err := l.keys.checkLease(lease); lease != 0 && err != nil && l.keys.err == nil {
		return nil, false, err
	}
	return l.keys.acquire(ctx, request{wait: wait, lease: lease})
}

// ForceUnlock unlocks the lock, whoever holds it, and reports whether it was held (RLock.forceUnlock).
// The context of a holder in Go ends at its next renewal. The request is not sent again: after a
// network error the lock may have been unlocked.
func (l *handle) ForceUnlock(ctx context.Context) (bool, error) { return l.keys.force(ctx) }

// IsLocked reports whether the lock is held (RLock.isLocked).
func (l *handle) IsLocked(ctx context.Context) (bool, error) {
	n, err := onMaster(ctx, l.keys, func(rdb redis.Cmdable) (int64, error) {
		return rdb.Exists(ctx, l.keys.Hash).Result()
	})
	return n > 0, err
}

// Special results of RemainTimeToLive, as in PTTL.
const (
	NoTimeToLive time.Duration = -1 // the key does not expire: it is not a Redisson lock, or broken
	NotLocked    time.Duration = -2 // the lock is free
)

// RemainTimeToLive returns the remaining lease, NoTimeToLive or NotLocked (RLock.remainTimeToLive).
func (l *handle) RemainTimeToLive(ctx context.Context) (time.Duration, error) {
	return onMaster(ctx, l.keys, func(rdb redis.Cmdable) (time.Duration, error) {
		return rdb.PTTL(ctx, l.keys.Hash).Result()
	})
}

// onMaster reads from the master that has the lock.
func onMaster[T any](ctx context.Context, k *keys, read func(rdb redis.Cmdable) (T, error)) (T, error) {
	return ask(ctx, k, func(ctx context.Context) (T, error) {
		return redisx.OnMaster(ctx, &k.client.host.Runner, k.Hash, read)
	}, nil)
}

// A request holds the arguments of a call that takes a lock.
type request struct {
	wait    time.Duration // 0 or less: a single attempt
	forever bool          // the wait has no end
	lease   time.Duration // 0: renewed
}

// acquire calls take and then the observer.
func (k *keys) acquire(ctx context.Context, req request) (*Hold, bool, error) {
	start := time.Now()
	h, granted, err := k.take(ctx, req)
	k.observeCall(ctx, start, granted, err)
	return h, granted, err
}

// take returns a hold, or false if the wait ends first.
func (k *keys) take(ctx context.Context, req request) (*Hold, bool, error) {
	if err := k.usable(ctx); err != nil {
		return nil, false, err
	}
	h := newHold(ctx, k, req.lease)
	var err error
	var granted bool
	if !req.forever && req.wait <= 0 {
		var a lockReply
		a, err = h.attempt(ctx, unseen)
		granted = a.granted
	} else {
		granted, err = k.wait(ctx, h, req)
	}
	if err == nil && granted {
		return h, true, nil
	}
	h.forgo()
	k.client.owners.end(h.number)
	h.cancel(context.Canceled) // no caller has its context
	if errors.Is(err, errTimeUp) {
		err = nil
	}
	return nil, false, err
}

// wait waits for the lock of h, in a line or in the queue of a fair lock.
func (k *keys) wait(ctx context.Context, h *Hold, req request) (bool, error) {
	if !req.forever {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, req.wait, errTimeUp)
		defer cancel()
	}
	if k.fair {
		return h.queueUp(ctx, req)
	}
	return k.client.enter(ctx, h).wait(ctx)
}

// String returns the kind and the name of the lock, as in lock "jobs" or fair lock "jobs". It sends nothing
// to Redis.
func (l *handle) String() string {
	kind := l.keys.kind()
	if kind != "lock" {
		kind += " lock"
	}
	return fmt.Sprintf("%s %q", kind, l.keys.name)
}
