package rratelimiter

import (
	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/limit"
)

// The errors of this package. Test with errors.Is: methods wrap them with the quoted name
// of the limiter, the argument or key, its value and the bound. ErrClosed and an error of
// an option of New belong to the Client and name no limiter. If a context has ended and
// Redis has not failed, the error is ctx.Err() itself. Errors of go-redis are wrapped; if
// a *redis.Client is connected to a cluster node, the error says so.
var (
	// ErrNotInitialized: no rate is set under this name (see TrySetRate and
	// WithRate), or its hash lacks rate, interval or type (Redisson: "RateLimiter
	// is not initialized").
	ErrNotInitialized = failure.ErrNotInitialized

	// ErrPermitsExceedRate: the call asked for more permits than the rate, so waiting
	// would not help (Redisson: "Requested permits amount cannot exceed defined rate").
	ErrPermitsExceedRate = limit.ErrPermitsExceedRate

	// ErrInvalidArgument: an argument is out of its bounds. Nothing was
	// written; Redis was asked only where it alone knows the slots of a name.
	ErrInvalidArgument = limit.ErrInvalidArgument

	// ErrMisconfigured: the limiter was made with an argument out of its bounds, so every
	// call fails, even with valid arguments. It is also an ErrInvalidArgument (Validate).
	ErrMisconfigured = limit.ErrMisconfigured

	// ErrBadState: the data under the limiter's keys in Redis is not a limiter's: a key
	// of the wrong type, or a field that is not an integer. Nothing was written. SetRate
	// repairs a field, Delete removes everything.
	ErrBadState = failure.ErrBadState

	// ErrNoNotifications: the server does not send the events that a listener needs
	// (notify-keyspace-events).
	ErrNoNotifications = failure.ErrNoNotifications

	// ErrNoAnswer: Redis did not reply before the timeout passed or go-redis gave up.
	// It is unknown whether the request was carried out; permits that an acquire may have
	// taken are given back. The error also wraps the last network error, if any. An error
	// that Redis replies, such as OOM or READONLY, is not an ErrNoAnswer, and neither is
	// the end of a context.
	ErrNoAnswer = limit.ErrNoAnswer

	// ErrNotReplicated: Redis has carried out the request, but fewer replicas than
	// WithMinReplicas requires had it in time. Permits that an acquire took are given
	// back; other changes, such as a rate, remain.
	ErrNotReplicated = failure.ErrNotReplicated

	// ErrClosed: the Client was closed before or during the call.
	ErrClosed = failure.ErrClosed
)
