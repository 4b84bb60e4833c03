package javapeer

import (
	"context"
	"slices"
	"strings"
	"time"
)

// A LockKind is one of Redisson's locks.
type LockKind string

// The kinds of locks.
const (
	Reentrant LockKind = "lock"   // RLock, of getLock
	Fenced    LockKind = "fenced" // RFencedLock, since 3.19.0
	Fair      LockKind = "fair"   // RLock, of getFairLock
)

// Lock is a lock of one Redisson instance. Its methods are those of RLock and
// RFencedLock; each is one request to the peer.
//
// A lock belongs to a thread. The threads of a peer have names: the first use of a
// name creates the thread, which lives as long as the peer and serves all locks and
// instances. It does one call at a time; calls that come meanwhile have no order.
type Lock struct {
	peer         *Peer
	client, name string
	kind         LockKind
}

// Lock returns the lock called name of the instance that was connected as client. It
// sends nothing to the peer. The peer has one object for it, as long as the instance
// is connected.
func (p *Peer) Lock(client, name string, kind LockKind) *Lock {
	return &Lock{peer: p, client: client, name: name, kind: kind}
}

// Interrupt interrupts the call of a thread. It does nothing to a thread without a call.
func (p *Peer) Interrupt(ctx context.Context, thread string) error {
	_, err := call[any](ctx, p, "thread.interrupt", args{"thread": thread})
	return err
}

// Waiting reports whether a thread waits for a message about a lock. It returns false for a thread that waits
// for a reply of Redis, which an interrupt ends in another way, or for a token.
func (p *Peer) Waiting(ctx context.Context, thread string) (bool, error) {
	frames, err := call[[]string](ctx, p, "thread.frames", args{"thread": thread})
	return slices.ContainsFunc(frames, func(frame string) bool {
		return strings.HasPrefix(frame, "java.util.concurrent.Semaphore.")
	}), err
}

// about adds to the arguments which lock they are about.
func (l *Lock) about(a args) args {
	a["client"], a["name"], a["kind"] = l.client, l.name, l.kind
	return a
}

// askLock calls a method of the lock.
func askLock[T any](ctx context.Context, l *Lock, op string, a args) (T, error) {
	return call[T](ctx, l.peer, "lock."+op, l.about(a))
}

// doLock calls a method of the lock that has no result.
func doLock(ctx context.Context, l *Lock, op string, a args) error {
	_, err := askLock[any](ctx, l, op, a)
	return err
}

func on(thread string) args { return args{"thread": thread} }

// taking returns the arguments of a call that takes a lock with a lease, unless that is 0.
func taking(thread string, lease time.Duration) args {
	a := on(thread)
	setPositive(a, "lease", lease.Milliseconds())
	return a
}

// TryLock is tryLock(), which does not wait.
func (l *Lock) TryLock(ctx context.Context, thread string) (bool, error) {
	return askLock[bool](ctx, l, "tryLock", on(thread))
}

// Start begins to take the lock. If wait is below 0 it is lockInterruptibly(), or lock(lease, unit), and the
// outcome is nil. Otherwise it is tryLock with the wait, and with the lease unless that is 0; without either
// it is tryLock(). Interrupt ends all but lock.
func (l *Lock) Start(thread string, wait, lease time.Duration) *Started[*bool] {
	op, a := "lock.tryLock", taking(thread, lease)
	switch {
	case wait >= 0 && wait+lease > 0:
		a["wait"] = wait.Milliseconds()
	case wait < 0 && lease > 0:
		op = "lock.lock"
	case wait < 0:
		op = "lock.lockInterruptibly"
	}
	return start[*bool](l.peer, op, l.about(a))
}

// StartTryLockAsync begins tryLockAsync(wait, lease, unit).
func (l *Lock) StartTryLockAsync(thread string, wait, lease time.Duration) *Started[bool] {
	a := taking(thread, lease)
	a["wait"] = wait.Milliseconds()
	return start[bool](l.peer, "lock.tryLockAsync", l.about(a))
}

// Unlock is unlock(). Without a hold of the thread it returns an Error, an
// IllegalMonitorStateException.
func (l *Lock) Unlock(ctx context.Context, thread string) error {
	return doLock(ctx, l, "unlock", on(thread))
}

// ForceUnlock is forceUnlock().
func (l *Lock) ForceUnlock(ctx context.Context) (bool, error) {
	return askLock[bool](ctx, l, "forceUnlock", args{})
}

// IsLocked is isLocked().
func (l *Lock) IsLocked(ctx context.Context) (bool, error) {
	return askLock[bool](ctx, l, "isLocked", args{})
}

// HeldByCurrent is isHeldByCurrentThread(), called by the thread.
func (l *Lock) HeldByCurrent(ctx context.Context, thread string) (bool, error) {
	return askLock[bool](ctx, l, "isHeldByCurrentThread", on(thread))
}

// HoldCount is getHoldCount(), called by the thread.
func (l *Lock) HoldCount(ctx context.Context, thread string) (int64, error) {
	return askLock[int64](ctx, l, "getHoldCount", on(thread))
}

// RemainTimeToLive is remainTimeToLive(): ms, -1 or -2, as PTTL has them.
func (l *Lock) RemainTimeToLive(ctx context.Context) (int64, error) {
	return askLock[int64](ctx, l, "remainTimeToLive", args{})
}

// Owner returns the field by which the hash of a lock names the thread: the id of the
// instance, a colon, and the id of the thread. It does not wait for calls of the thread.
func (l *Lock) Owner(ctx context.Context, thread string) (string, error) {
	return askLock[string](ctx, l, "owner", on(thread))
}

// LockAndGetToken is lockAndGetToken().
func (l *Lock) LockAndGetToken(ctx context.Context, thread string) (int64, error) {
	return askLock[int64](ctx, l, "lockAndGetToken", on(thread))
}

// Token is getToken(): the last token of any hold, or 0.
func (l *Lock) Token(ctx context.Context) (int64, error) {
	return askLock[int64](ctx, l, "getToken", args{})
}
