package javapeer

import (
	"context"
	"time"
)

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
