package javapeer

import (
	"context"
	"time"
)

// Limiter is a limiter of one Redisson instance. Its methods are those of
// RRateLimiter; each is one request to the peer.
type Limiter struct {
	peer         *Peer
	client, name string
}

// Limiter returns the limiter called name of the instance that was connected as
// client. It sends nothing to the peer.
func (p *Peer) Limiter(client, name string) *Limiter {
	return &Limiter{peer: p, client: client, name: name}
}

// ask calls a method of the limiter that has a result.
func ask[T any](ctx context.Context, l *Limiter, op string, a args) (T, error) {
	if a == nil {
		a = args{}
	}
	a["client"], a["name"] = l.client, l.name
	return call[T](ctx, l.peer, op, a)
}

// do calls a method of the limiter that has none.
func (l *Limiter) do(ctx context.Context, op string, a args) error {
	_, err := ask[any](ctx, l, op, a)
	return err
}

// TryAcquire is tryAcquire(permits), or tryAcquire(permits, timeout, unit) if timeout is not 0.
func (l *Limiter) TryAcquire(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
	a := args{"permits": permits}
	if timeout != 0 {
		a["timeout"] = timeout.Milliseconds()
	}
	return ask[bool](ctx, l, "tryAcquire", a)
}

// Acquire is acquire(permits). When ctx ends first, the peer goes on waiting
// and may take the permits later.
func (l *Limiter) Acquire(ctx context.Context, permits int64) error {
	return l.do(ctx, "acquire", args{"permits": permits})
}

// Release is release(permits), since 3.52.0.
func (l *Limiter) Release(ctx context.Context, permits int64) error {
	return l.do(ctx, "release", args{"permits": permits})
}

// AvailablePermits is availablePermits().
func (l *Limiter) AvailablePermits(ctx context.Context) (int64, error) {
	return ask[int64](ctx, l, "availablePermits", nil)
}

// Exists is isExists().
func (l *Limiter) Exists(ctx context.Context) (bool, error) {
	return ask[bool](ctx, l, "isExists", nil)
}

// Delete is delete().
func (l *Limiter) Delete(ctx context.Context) (bool, error) {
	return ask[bool](ctx, l, "delete", nil)
}

// Rename is rename(newName). Unlike an object of Redisson, this one keeps its
// name.
func (l *Limiter) Rename(ctx context.Context, newName string) error {
	return l.do(ctx, "rename", args{"newName": newName})
}
