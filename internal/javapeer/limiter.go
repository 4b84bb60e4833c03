package javapeer

import (
	"context"
	"time"

	"github.com/redisson-go/rratelimiter"
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

// Acquire is acquire(permits). When ctx ends first, the peer continues to wait
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

// Rename is rename(newName). Unlike an object of Redisson, l keeps its old name.
func (l *Limiter) Rename(ctx context.Context, newName string) error {
	return l.do(ctx, "rename", args{"newName": newName})
}

// rateArgs are the arguments that all methods with a rate have. Without KeepAlive
// the peer calls the method that every release has.
func rateArgs(c rratelimiter.Config) args {
	a := args{"type": c.Type.String(), "rate": c.Rate, "interval": c.Interval.Milliseconds()}
	if c.KeepAlive != 0 {
		a["keepAlive"] = c.KeepAlive.Milliseconds()
	}
	return a
}

// TrySetRate is trySetRate(type, rate, interval, unit). With a KeepAlive it is the method that
// takes one, since 3.37.0.
func (l *Limiter) TrySetRate(ctx context.Context, c rratelimiter.Config) (bool, error) {
	return ask[bool](ctx, l, "trySetRate", rateArgs(c))
}

// SetRate is setRate(type, rate, interval, unit), with a KeepAlive as for TrySetRate; or
// setRate(RateLimiterArgs) if it keeps the state, since 4.4.0.
func (l *Limiter) SetRate(ctx context.Context, c rratelimiter.Config, keepState bool) error {
	a := rateArgs(c)
	if keepState {
		a["keepState"] = true
	}
	return l.do(ctx, "setRate", a)
}

// UpdateRate is updateRate(RateLimiterArgs), since 4.4.0.
func (l *Limiter) UpdateRate(ctx context.Context, c rratelimiter.Config, keepState bool) (bool, error) {
	a := rateArgs(c)
	a["keepState"] = keepState
	return ask[bool](ctx, l, "updateRate", a)
}

// Config is getConfig(), which does not return KeepAlive.
func (l *Limiter) Config(ctx context.Context) (rratelimiter.Config, error) {
	got, err := ask[struct {
		Type           string
		Rate, Interval int64
	}](ctx, l, "getConfig", nil)
	c := rratelimiter.Config{Rate: got.Rate, Interval: time.Duration(got.Interval) * time.Millisecond}
	if got.Type == rratelimiter.PerClient.String() {
		c.Type = rratelimiter.PerClient
	}
	return c, err
}

// Expire is expire(ttl, unit).
func (l *Limiter) Expire(ctx context.Context, ttl time.Duration) (bool, error) {
	return l.expire(ctx, "expire", ttl)
}

// ExpireAt is expireAt(timestamp).
func (l *Limiter) ExpireAt(ctx context.Context, t time.Time) (bool, error) {
	return ask[bool](ctx, l, "expireAt", args{"at": t.UnixMilli()})
}

// ExpireIfSet is expireIfSet(ttl), since 3.17.0, from Redis 7.0 on.
func (l *Limiter) ExpireIfSet(ctx context.Context, ttl time.Duration) (bool, error) {
	return l.expire(ctx, "expireIfSet", ttl)
}

// ExpireIfNotSet is expireIfNotSet(ttl), since 3.17.0, from Redis 7.0 on.
func (l *Limiter) ExpireIfNotSet(ctx context.Context, ttl time.Duration) (bool, error) {
	return l.expire(ctx, "expireIfNotSet", ttl)
}

// ExpireIfGreater is expireIfGreater(ttl), since 3.17.0, from Redis 7.0 on.
func (l *Limiter) ExpireIfGreater(ctx context.Context, ttl time.Duration) (bool, error) {
	return l.expire(ctx, "expireIfGreater", ttl)
}

// ExpireIfLess is expireIfLess(ttl), since 3.17.0, from Redis 7.0 on.
func (l *Limiter) ExpireIfLess(ctx context.Context, ttl time.Duration) (bool, error) {
	return l.expire(ctx, "expireIfLess", ttl)
}

func (l *Limiter) expire(ctx context.Context, op string, ttl time.Duration) (bool, error) {
	return ask[bool](ctx, l, op, args{"ttl": ttl.Milliseconds()})
}

// ClearExpire is clearExpire().
func (l *Limiter) ClearExpire(ctx context.Context) (bool, error) {
	return ask[bool](ctx, l, "clearExpire", nil)
}

// TimeToLive is remainTimeToLive(): ms, -1 or -2, as PTTL has them.
func (l *Limiter) TimeToLive(ctx context.Context) (int64, error) {
	return ask[int64](ctx, l, "remainTimeToLive", nil)
}

// ExpireTime is getExpireTime(), since 3.17.0, from Redis 7.0 on: ms since the
// epoch, -1 or -2, as PEXPIRETIME has them.
func (l *Limiter) ExpireTime(ctx context.Context) (int64, error) {
	return ask[int64](ctx, l, "getExpireTime", nil)
}
