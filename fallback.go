package rratelimiter

import (
	"time"

	"github.com/redisson-go/rratelimiter/internal/outage"
)

// A Fallback is what TryAcquire, Acquire, Allow, Reserve and TryReserve do when Redis has
// failed: it did not reply within the budget (WithBudget), or replied with an error such as OOM,
// READONLY or NOPERM. A Fallback does not replace errors of the call or the limiter:
// ErrNotInitialized, ErrPermitsExceedRate, ErrInvalidArgument, ErrBadState, ErrNotReplicated and
// ErrClosed are returned unchanged, and so is the end of a context.
type Fallback int

const (
	// FallbackError returns the error. It is the default.
	FallbackError Fallback = outage.ReturnError

	// FallbackAllow grants the permits: the limit does not hold while Redis is down.
	FallbackAllow Fallback = outage.Allow

	// FallbackDeny refuses the permits at once. Acquire, which cannot say no, returns the
	// error.
	FallbackDeny Fallback = outage.Deny

	// FallbackLocal grants a share of the rate (WithLocalShare) in this process alone. Calls wait for its
	// permits as they wait for those of Redis. It counts the permits that Redis granted this Client before,
	// and books its own grants when Redis is back, so an outage does not grant the rate twice. If the Client
	// does not know the rate of a limiter, it returns the error. The Client learns the rate from the first
	// reply, and again every 10 s; or from WithRate, a Keyed, and a TrySetRate or SetRate to which Redis did
	// not reply.
	FallbackLocal Fallback = outage.Local
)

// WithFallback sets the Fallback of this Client's calls. RateLimiter.WithFallback sets it
// for single calls. The default is FallbackError.
//
// It comes with a budget (WithBudget) and a circuit: after 3 consecutive requests without a
// reply, the Client no longer asks Redis, and callers get their fallback at once. A probe in
// the background then checks whether Redis is back: first after 100 ms, then after twice as
// long each time, up to a second. A probe waits 2 s for its reply. A Client has one circuit.
// On a cluster it has 64, each for 256 of the 16,384 slots, and on a Ring one for each
// shard, because only some servers may be away.
func WithFallback(f Fallback) Option {
	return option(func(s *settings) { s.outage.Policy = s.outage.Policy.With(int(f)) })
}

// WithBudget sets how long a call that takes permits waits for a reply of Redis: after d without one, it
// returns as WithFallback says. All other calls, such as Charge and Release, have no budget. The time that a
// caller stands in line for permits does not count. The budget is at most three quarters of the time left in
// the context. d is at least 1 ms; choose more than Redis takes on a bad day. The default is 250 ms with
// WithFallback, and no budget without it.
func WithBudget(d time.Duration) Option {
	return option(func(s *settings) { s.outage.Policy.Budget, s.outage.Policy.Bounded = d, true })
}

// WithLocalShare sets the share of a rate that this Client grants by FallbackLocal: more
// than 0, at most 1. The default is an equal share for each Go Client that has used the
// limiter within a minute, as learnt while Redis was well; all of it for a PerClient
// limit. Java clients do not count, because they stop without Redis. If the share is less
// than a permit in an interval, it is a permit in a longer time.
func WithLocalShare(share float64) Option {
	return option(func(s *settings) { s.outage.Share, s.outage.Fixed = share, true })
}

// WithHealthHook makes the Client call f whenever Redis fails or is back, in the
// goroutine that notices, one call at a time. f must not block: the caller or the probe
// that notices waits for it.
func WithHealthHook(f func(Health)) Option {
	return option(func(s *settings) {
		if s.outage.Hook = nil; f != nil {
			s.outage.Hook = func(h outage.Health) { f(Health(h)) }
		}
	})
}

// WithFallback returns a RateLimiter of the same name whose calls fall back to f, as
// WithFallback does for a Client: a login denies, a search allows. It is cheap enough to
// be made for each call. If f is not one of the constants, the calls return an
// ErrInvalidArgument.
func (l *RateLimiter) WithFallback(f Fallback) *RateLimiter {
	return newRateLimiter(l.client, l.limiter.Load(), l.policy.With(int(f)), l.givenRate)
}

// SetLimiting turns limiting off and on. While it is off, all calls that take permits
// grant them at once, without Redis, and Release does nothing. It is for an incident that
// the limiter itself causes. All other methods work as before. A Client begins with
// limiting on.
func (c *Client) SetLimiting(on bool) { c.guard.SetLimiting(on) }

// Health is the state of a Client's connection to its Redis.
type Health struct {
	// Degraded reports that a circuit is open: calls that have a Fallback or a
	// budget are answered without Redis.
	Degraded bool

	// Since is when the circuit opened, and Cause the error that opened it.
	Since time.Time
	Cause error

	// Decided counts the calls of this Client for which a Fallback decided.
	Decided int64

	// Unbooked is the number of permits granted by FallbackLocal that Redis does
	// not know of yet.
	Unbooked int64
}

// Health returns the state of the connection to Redis, as the calls of the Client have found it. It does not
// call Redis. Only calls with a fallback or a budget notice a failure.
func (c *Client) Health() Health { return Health(c.guard.Health()) }
