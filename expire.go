package rratelimiter

import (
	"context"
	"time"
)

// Expire makes the limiter end after ttl, and reports whether there is one
// (RExpirable.expire). A ttl below 1 ms deletes it at once.
//
// The time to live belongs to the limiter as a whole: the hash decides whether a condition holds, and value
// and permits follow it. Each acquire gives value and permits the remaining time of the hash, so that they
// end together; those of the other clients of a PerClient limiter follow with their next acquires, and until
// then end when they would have. A changed rate does not change the time to live. A limiter with a keep alive
// does not keep this end, and a Keyed has one unless WithKeepAlive(0) is given: acquires and releases replace
// the end by the keep alive, although the call has returned true.
//
// At its end the limiter gives all permits back, so no call waits for longer, and RetryAfter
// and ResetAfter do not point beyond it. A call that waits already when another program sets
// an end, as by EXPIRE, finds it when it asks next. Afterwards an acquire sets the rate again (WithRate,
// Keyed), or returns ErrNotInitialized.
//
// This holds for Expire, ExpireAt, the ExpireIf methods and ClearExpire: a fraction of a
// ms is dropped; they return false if there is no limiter; they run on every server that
// the library supports. They are not sent again, because a condition could have changed
// meanwhile: after a network error the time may have been set. Errors are ErrClosed,
// ErrBadState and ErrNoAnswer.
func (l *RateLimiter) Expire(ctx context.Context, ttl time.Duration) (bool, error) {
	return l.expire(ctx, "PEXPIRE", ttl.Milliseconds(), "")
}

// ExpireAt makes the limiter end at t by the clock of the server, and reports whether there is one
// (RExpirable.expireAt). A t that has passed deletes it at once. As with Expire, a limiter with a keep alive
// does not keep this end.
func (l *RateLimiter) ExpireAt(ctx context.Context, t time.Time) (bool, error) {
	return l.expire(ctx, "PEXPIREAT", t.UnixMilli(), "")
}

// ExpireIfSet is Expire for a limiter that has a time to live, and reports
// whether it had one (RExpirable.expireIfSet).
func (l *RateLimiter) ExpireIfSet(ctx context.Context, ttl time.Duration) (bool, error) {
	return l.expire(ctx, "PEXPIRE", ttl.Milliseconds(), "XX")
}

// ExpireIfNotSet is Expire for a limiter that has no time to live, and reports
// whether it had none (RExpirable.expireIfNotSet).
func (l *RateLimiter) ExpireIfNotSet(ctx context.Context, ttl time.Duration) (bool, error) {
	return l.expire(ctx, "PEXPIRE", ttl.Milliseconds(), "NX")
}

// ExpireIfGreater is Expire for a limiter that would end before ttl, and reports whether it was one
// (RExpirable.expireIfGreater). A limiter without a time to live never ends.
func (l *RateLimiter) ExpireIfGreater(ctx context.Context, ttl time.Duration) (bool, error) {
	return l.expire(ctx, "PEXPIRE", ttl.Milliseconds(), "GT")
}

// ExpireIfLess is Expire for a limiter that would end after ttl, or never, and reports whether it was one
// (RExpirable.expireIfLess).
func (l *RateLimiter) ExpireIfLess(ctx context.Context, ttl time.Duration) (bool, error) {
	return l.expire(ctx, "PEXPIRE", ttl.Milliseconds(), "LT")
}

// ClearExpire removes the time to live, and reports whether there was one
// (RExpirable.clearExpire).
func (l *RateLimiter) ClearExpire(ctx context.Context) (bool, error) {
	return l.expire(ctx, "PERSIST", 0, "")
}

func (l *RateLimiter) expire(ctx context.Context, command string, ms int64, condition string) (bool, error) {
	return l.limiter.Load().Expire(ctx, command, ms, condition)
}

// The special results of RemainTimeToLive, as in PTTL.
const (
	NoTimeToLive time.Duration = -1 // the limiter does not expire
	NoLimiter    time.Duration = -2 // there is no limiter
)

// RemainTimeToLive returns how long the limiter has to live, NoTimeToLive or
// NoLimiter (RExpirable.remainTimeToLive).
func (l *RateLimiter) RemainTimeToLive(ctx context.Context) (time.Duration, error) {
	return l.limiter.Load().TimeToLive(ctx)
}

// ExpireTime returns when the limiter ends, by the clock of the server. It is the
// zero Time if the limiter does not expire or does not exist
// (RExpirable.getExpireTime). It needs Redis 7.0.
func (l *RateLimiter) ExpireTime(ctx context.Context) (time.Time, error) {
	return l.limiter.Load().ExpireTime(ctx)
}
