package javapeer

import (
	"context"
	"time"
)

// LockAndGetToken is lockAndGetToken().
func (l *Lock) LockAndGetToken(ctx context.Context, thread string) (int64, error) {
	return askLock[int64](ctx, l, "lockAndGetToken", on(thread))
}

// LockAndGetTokenLease is lockAndGetToken(lease, unit). Redisson ignores the lease.
func (l *Lock) LockAndGetTokenLease(
	ctx context.Context, thread string, lease time.Duration,
) (int64, error) {
	return askLock[int64](ctx, l, "lockAndGetToken", on(thread).leased(lease))
}

// TryLockAndGetToken is tryLockAndGetToken(wait, unit). If the lock is not taken, the
// token is nil. If the wait ends while Redisson still subscribes, it is an Error.
func (l *Lock) TryLockAndGetToken(
	ctx context.Context, thread string, wait time.Duration,
) (token *int64, err error) {
	return askLock[*int64](ctx, l, "tryLockAndGetToken", timed(thread, wait))
}

// TryLockAndGetTokenLease is tryLockAndGetToken(wait, lease, unit).
func (l *Lock) TryLockAndGetTokenLease(
	ctx context.Context, thread string, wait, lease time.Duration,
) (token *int64, err error) {
	return askLock[*int64](ctx, l, "tryLockAndGetToken", timed(thread, wait).leased(lease))
}

// StartLockAndGetToken is LockAndGetToken for a caller that waits later.
func (l *Lock) StartLockAndGetToken(thread string) *Started[int64] {
	return start[int64](l.peer, "lock.lockAndGetToken", l.about(on(thread)))
}

// StartTryLockAndGetToken is TryLockAndGetToken for a caller that waits later.
func (l *Lock) StartTryLockAndGetToken(thread string, wait time.Duration) *Started[*int64] {
	return start[*int64](l.peer, "lock.tryLockAndGetToken", l.about(timed(thread, wait)))
}

// Token is getToken(): the last token that anyone was given, or 0.
func (l *Lock) Token(ctx context.Context) (int64, error) {
	return askLock[int64](ctx, l, "getToken", args{})
}
