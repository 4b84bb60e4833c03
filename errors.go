package rratelimiter

import (
	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/limit"
)

// The errors of this package. Test with errors.Is: a method wraps one of these
// with the name of the limiter, quoted, the argument or key, its value and
// the bound. ErrClosed and a refused option of New belong to the Client and name no
// limiter. If a context has ended and Redis has not failed, the error is ctx.Err()
// itself. Errors of go-redis are wrapped; if a *redis.Client meets a node of a
// cluster, the error says so.
var (
	// ErrNotInitialized: no rate is set under this name (see TrySetRate and
	// WithRate), or its hash lacks rate, interval or type (Redisson: "RateLimiter
	// is not initialized").
	ErrNotInitialized = engine.ErrNotInitialized

	// ErrPermitsExceedRate: more permits were asked for than the rate, so
	// that no waiting would help (Redisson: "Requested permits amount cannot
	// exceed defined rate").
	ErrPermitsExceedRate = limit.ErrPermitsExceedRate

	// ErrInvalidArgument: an argument is out of its bounds. Nothing was
	// written; Redis was asked only where it alone knows the slots of a name.
	ErrInvalidArgument = limit.ErrInvalidArgument

	// ErrBadState: what Redis holds under the limiter's keys cannot be a
	// limiter's: a key of another type, or a field that is no integer.
	// Nothing was written. SetRate puts a field right, Delete everything.
	ErrBadState = engine.ErrBadState

	// ErrNoNotifications: the server does not send the events that a listener
	// needs (its setting notify-keyspace-events).
	ErrNoNotifications = engine.ErrNoNotifications

	// ErrNoAnswer: Redis has not replied: the timeout has passed, or go-redis has
	// given up. It is unknown whether the request was carried out; permits that
	// an acquire may have taken are given back. The error also wraps the last
	// error of the network, if there was one. A reply that is an error, such as
	// OOM or READONLY, is no ErrNoAnswer, and neither is the end of a context.
	ErrNoAnswer = limit.ErrNoAnswer

	// ErrNotReplicated: Redis has carried the request out, but fewer replicas
	// than WithMinReplicas requires had it in time. Permits that an acquire took
	// are given back; other changes, such as a rate, remain.
	ErrNotReplicated = engine.ErrNotReplicated

	// ErrClosed: the Client was closed before the call, or while it waited.
	ErrClosed = engine.ErrClosed
)
