package rratelimiter

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// What the methods of this package answer with. Test with errors.Is: the
// error that is returned wraps one of these with the limiter, the argument or
// key, its value and the bound. Errors of go-redis and of the context come
// through as they are.
var (
	// ErrNotInitialized: no rate is set under this name, or its hash lacks
	// rate, interval or type (Redisson: "RateLimiter is not initialized").
	ErrNotInitialized = errors.New("rratelimiter: no rate is set")

	// ErrPermitsExceedRate: more permits were asked for than the rate, so
	// that no waiting would help (Redisson: "Requested permits amount cannot
	// exceed defined rate").
	ErrPermitsExceedRate = errors.New("rratelimiter: permits exceed the rate")

	// ErrInvalidArgument: an argument is out of its bounds. Nothing was
	// written; Redis was asked only where it alone knows the slots of a name.
	ErrInvalidArgument = errors.New("rratelimiter: invalid argument")

	// ErrBadState: what Redis holds under the limiter's keys cannot be a
	// limiter's: a key of another type, or a field that is no integer.
	// Nothing was written. SetRate puts a field right, Delete everything.
	ErrBadState = errors.New("rratelimiter: unreadable state in Redis")

	// ErrNoNotifications: the server does not tell what a listener wants to
	// hear (its setting notify-keyspace-events).
	ErrNoNotifications = errors.New("rratelimiter: keyspace notifications are off")

	// ErrNoAnswer: the timeout has passed, and Redis has not said whether the
	// permits are there. What it may have taken for the request is taken back.
	// The error wraps what the network said last, if it said anything.
	ErrNoAnswer = errors.New("rratelimiter: no answer from Redis in time")

	// ErrClosed: the Client was closed before the call, or while it waited.
	ErrClosed = errors.New("rratelimiter: client is closed")
)

// invalid is the error for an argument out of its bounds.
func invalid(argument string, value any, bound string) error {
	return fmt.Errorf("%w: %s is %v, must be %s", ErrInvalidArgument, argument, value, bound)
}

// exceeds is the error for permits that can never be there.
func (k *limiterKeys) exceeds(permits, rate int64) error {
	return fmt.Errorf("%w: permits is %d, must be at most %d, the rate of %s", ErrPermitsExceedRate, permits, rate, k.hash)
}

// scriptError translates what a script or Redis answered into the errors
// above. Codes are told apart by their first word (the scripts' headers list
// them), never by a text inside.
func (k *limiterKeys) scriptError(typ RateType, err error) error {
	has := func(code string) bool { return redis.HasErrorPrefix(err, code+" ") }
	switch {
	case has("NOTINIT"):
		return fmt.Errorf("%w: %s", ErrNotInitialized, k.hash)
	case has("BADFIELD"):
		return fmt.Errorf("%w: field %s of %s must be an integer between -2^53 and 2^53",
			ErrBadState, detail(err, "BADFIELD"), k.hash)
	case has("BADKEY"):
		return fmt.Errorf("%w: %s", ErrBadState, k.wrongKind(typ, detail(err, "BADKEY")))
	case has("WRONGTYPE"): // of a plain command on the hash
		return fmt.Errorf("%w: %s: %w", ErrBadState, k.wrongKind(typ, "1 hash"), err)
	case has("CROSSSLOT"):
		return fmt.Errorf("%w: the keys of %s are in different cluster slots: %w", ErrInvalidArgument, k.hash, err)
	}
	return err
}
