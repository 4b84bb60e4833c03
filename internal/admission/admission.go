// Package admission has what httplimit and grpclimit share: which part of a call an error is to be blamed
// on, how a client waits for a limiter that has no line, the settlement of reservations, and the key of an
// address.
package admission

import (
	"context"
	"errors"
	"time"

	"github.com/redisson-go/rratelimiter/internal/pause"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Fault is the part of a call that an error is to be blamed on. A fallback is for FaultOfLimiter
// alone: otherwise a call with a broken key would bypass its limit.
type Fault int

const (
	// FaultOfLimiter is a limiter that could not decide.
	FaultOfLimiter Fault = iota

	// FaultOfKey is a key that the limiter does not take.
	FaultOfKey

	// FaultOfCost is a cost that the limit can never grant.
	FaultOfCost
)

// FaultOf returns the Fault for an error of a limiter.
func FaultOf(err error) Fault {
	switch {
	case errors.Is(err, limit.ErrMisconfigured): // which wraps an ErrInvalidArgument
		return FaultOfLimiter
	case errors.Is(err, limit.ErrPermitsExceedRate):
		return FaultOfCost
	case errors.Is(err, limit.ErrInvalidArgument):
		return FaultOfKey
	}
	return FaultOfLimiter
}

// A KeyError is the error of a function that finds a key. Rules return it like an error of a limiter,
// and the type tells them apart.
type KeyError struct{ Err error }

// Error returns the text of the function's error.
func (e KeyError) Error() string { return e.Err.Error() }

// Unwrap returns the function's error.
func (e KeyError) Unwrap() error { return e.Err }

// IsKeyError reports whether err is a KeyError.
func IsKeyError(err error) bool {
	_, ok := errors.AsType[KeyError](err)
	return ok
}

// blindWait is how long Poll waits after a refusal without RetryAfter.
const blindWait = 100 * time.Millisecond

// Poll calls ask until the permits are granted, waiting for RetryAfter before each new attempt. It
// returns the refusal at once if the next attempt would come after latest, unless that is zero, and
// the error of ask or of ctx.
func Poll(
	ctx context.Context, latest time.Time, ask func() (limit.Result, error),
) (limit.Result, error) {
	for {
		result, err := ask()
		if err != nil || result.Allowed {
			return result, err
		}
		wait := result.RetryAfter
		if wait <= 0 {
			wait = blindWait
		}
		// RetryAfter is never too short, so a shorter wait would end with another refusal.
		if !latest.IsZero() && wait > time.Until(latest) {
			return result, nil
		}
		if err := pause.For(ctx, wait); err != nil {
			return limit.Result{}, err
		}
	}
}
