package javapeer

import (
	"context"
	"time"
)

// LockAndGetToken is lockAndGetToken().
func (l *Lock) LockAndGetToken(ctx context.Context, thread string) (int64, error) {
	return askLock[int64](ctx, l, "lockAndGetToken", on(thread))
}

// TryLockAndGetToken is tryLockAndGetToken(wait, unit). If the lock is not taken, the
// token is nil. If the wait ends while Redisson still subscribes, it is an Error.
func (l *Lock) TryLockAndGetToken(
	ctx context.Context, thread string, wait time.Duration,
) (token *int64, err error) {
	return askLock[*int64](ctx, l, "tryLockAndGetToken", timed(thread, wait))
}

// StartLockAndGetToken is LockAndGetToken for a caller that waits later.
func (l *Lock) StartLockAndGetToken(thread string) *Started[int64] {
	return start[int64](l.peer, "lock.lockAndGetToken", l.about(on(thread)))
}

// Token is getToken(): the last token that anyone was given, or 0.
func (l *Lock) Token(ctx context.Context) (int64, error) {
	return askLock[int64](ctx, l, "getToken", args{})
}
