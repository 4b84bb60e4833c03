package rlock

import (
	"context"
	"time"
)

// A Locker is a [Lock], [FencedLock] or [FairLock] in a service, and in a test a fake whose methods return
// a [FakeHold].
type Locker interface {
	// Name returns the name of the lock.
	Name() string

	// Lock does what [Lock.Lock] does.
	Lock(ctx context.Context) (*Hold, error)

	// LockFor does what [Lock.LockFor] does.
	LockFor(ctx context.Context, lease time.Duration) (*Hold, error)

	// TryLock does what [Lock.TryLock] does.
	TryLock(ctx context.Context, wait, lease time.Duration) (*Hold, bool, error)
}

var (
	_ Locker = (*Lock)(nil)
	_ Locker = (*FencedLock)(nil)
	_ Locker = (*FairLock)(nil)
)

// FakeHold returns a Hold that needs no Redis, for the fake [Locker] of a test. Its Context has the values
// of ctx. Its lease never expires: it ends with its last Unlock, or is lost when the test calls lose. token
// is its first token, 0 for a lock without tokens.
func FakeHold(ctx context.Context, token int64) (h *Hold, lose func()) {
	h = &Hold{count: 1, token: token}
	h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return h, h.loseFake
}

// unbound reports whether h has no lock in Redis: it is the zero Hold or a fake.
func (h *Hold) unbound() bool { return h.keys == nil }

// relockFake is Relock of a fake. h.mu is held.
func (h *Hold) relockFake(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	h.count++
	if h.token > 0 {
		h.token++
	}
	return nil
}

// unlockFake is Unlock of a fake. h.mu is held.
func (h *Hold) unlockFake() error {
	h.count--
	if h.count == 0 {
		h.cancel(context.Canceled)
	}
	return nil
}

// loseFake ends a fake that is held.
func (h *Hold) loseFake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count > 0 {
		h.count, h.why = 0, ErrLost
		h.cancel(ErrLost)
	}
}
