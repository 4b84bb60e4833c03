package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// The errors that the root package documents, with those of package limit.
var (
	ErrNotInitialized  = errors.New("rratelimiter: no rate is set")
	ErrBadState        = errors.New("rratelimiter: unreadable state in Redis")
	ErrNoNotifications = errors.New("rratelimiter: keyspace notifications are off")
	ErrNotReplicated   = errors.New("rratelimiter: too few replicas")
	ErrClosed          = errors.New("rratelimiter: client is closed")
)

// errSilent is why a caller whose budget is spent leaves.
var errSilent = errors.New("the budget is spent")

// An Error is an error in the words of this library. It is made without the name of its
// limiter, which may have several names. The exported method that was called adds the
// name once (Limiter.Named).
type Error struct {
	kind   error   // the sentinel, nil if there is none
	prefix string  // the text before the name; empty for that of kind
	name   string  // quoted; empty until it is known
	detail string  // the text after the name
	cause  error   // the end of the text, nil if there is none
	wraps  []error // further errors to unwrap, without text
}

// Error returns the text.
func (e *Error) Error() string {
	text := e.prefix
	if text == "" {
		text = e.kind.Error() + " for "
	}
	text += e.name + e.detail
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// Unwrap returns kind, cause and wraps.
func (e *Error) Unwrap() []error {
	all := make([]error, 0, 2+len(e.wraps))
	for _, err := range append([]error{e.kind, e.cause}, e.wraps...) {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// An endError is the end of a context, with the last failure of Redis or the
// network before it.
type endError struct{ ended, lastFailure error }

// Error returns the text of both.
func (e *endError) Error() string { return e.ended.Error() + ": " + e.lastFailure.Error() }

// Unwrap returns both.
func (e *endError) Unwrap() []error { return []error{e.ended, e.lastFailure} }

// Named returns err with the name of a limiter if it is an Error without one, and
// any other error unchanged.
func Named(err error, name string) error { return withName(err, name) }

// withName adds a name to each Error in err that has none. It copies the Error,
// because a batch gives one error to many callers, and each adds its name.
func withName(err error, name string) error {
	switch e := err.(type) {
	case *Error:
		if e.name == "" {
			named := *e
			named.name, named.cause = strconv.Quote(name), withName(e.cause, name)
			return &named
		}
	// The context's own error gets no name: callers compare it by errors.Is.
	case *endError:
		return &endError{e.ended, withName(e.lastFailure, name)}
	}
	return err
}

// Invalid returns the error for an argument that is out of bounds.
func Invalid(argument string, value any, bound string) error {
	return &Error{kind: limit.ErrInvalidArgument, detail: outOfBounds(argument, value, bound)}
}

// InvalidOf is Invalid for a function that belongs to no limiter, such as New.
func InvalidOf(function, argument string, value any, bound string) error {
	before := limit.ErrInvalidArgument.Error() + " of "
	detail := outOfBounds(argument, value, bound)
	return &Error{kind: limit.ErrInvalidArgument, prefix: before, name: function, detail: detail}
}

func outOfBounds(argument string, value any, bound string) string {
	return fmt.Sprintf(": %s is %v, must %s", argument, value, bound)
}

// Misconfigured returns err as a limit.ErrMisconfigured, and nil for nil.
func Misconfigured(err error) error {
	e, ok := err.(*Error)
	if !ok || errors.Is(err, limit.ErrMisconfigured) {
		return err
	}
	config := *e
	// Clip wraps: appending in place could write to an array that err shares.
	config.wraps = append(config.wraps[:len(e.wraps):len(e.wraps)], limit.ErrMisconfigured)
	return &config
}

// unanswered returns the error of a call that ended before Redis had replied: the
// reason why it ended, and the last failure if there was one.
func unanswered(why, cause error) error {
	switch {
	case cause != nil && errors.Is(cause, why):
		return cause
	case why == limit.ErrNoAnswer:
		return &Error{kind: why, cause: cause}
	case cause != nil:
		return &endError{why, cause}
	}
	return why
}

// NotHeld returns the error of a refused Acquire. With nil the caller would believe that
// it holds the permits.
func NotHeld() error { return unanswered(limit.ErrNoAnswer, nil) }

// Silent returns the error of a call whose budget is spent, with the last
// failure.
func Silent(budget time.Duration, cause error) error {
	return &Error{kind: limit.ErrNoAnswer, detail: fmt.Sprintf(" within %v", budget), cause: cause}
}

// An outageError is the failure of one call as the reason of later calls. Its text is that of the last cause
// alone, because the rest names the limiter, and so perhaps the key of another caller.
type outageError struct{ error }

// Outage returns the failure of a call as an error for other callers.
func Outage(failure error) error { return &outageError{failure} }

// Error returns the text.
func (o *outageError) Error() string {
	err := o.error
	for {
		switch e := err.(type) {
		case *Error:
			if e.cause == nil {
				return strings.TrimPrefix(fmt.Sprint(e.kind), "rratelimiter: ") + e.detail
			}
			err = e.cause
		case *endError:
			err = e.lastFailure
		default:
			return err.Error()
		}
	}
}

// Unwrap returns the failure.
func (o *outageError) Unwrap() error { return o.error }

// NotAsked returns the error of a call that did not ask Redis because Redis has
// failed before.
func NotAsked(cause error) error {
	return &Error{kind: limit.ErrNoAnswer, detail: ": Redis is not asked, for it has failed", cause: cause}
}

// withContextEnd returns err, joined with the end of ctx if that ended the call.
// go-redis may report the end as a timeout of the network alone.
func withContextEnd(ctx context.Context, err error) error {
	if _, ours := err.(*Error); ours || err == nil || err == ErrClosed || redisx.Final(err) {
		return err
	}
	why := ctx.Err()
	// go-redis sets the deadline of the connection to that of ctx, and the
	// connection may fail a moment before ctx does.
	if deadline, ok := ctx.Deadline(); why == nil && ok && !time.Now().Before(deadline) {
		why = context.DeadlineExceeded
	}
	if why == nil {
		return err
	}
	return unanswered(why, err)
}

// Exceeds returns the error for permits that can never be there.
func Exceeds(permits, rate int64) error {
	return &Error{
		kind: limit.ErrPermitsExceedRate, prefix: limit.ErrPermitsExceedRate.Error() + " of ",
		detail: fmt.Sprintf(": permits is %d, must be at most %d", permits, rate),
	}
}

// notInitialized returns the error for a limiter without a rate, which names the cure.
func notInitialized(also ...error) error {
	const cure = ": set one by WithRate, TrySetRate or rrl set"
	return &Error{kind: ErrNotInitialized, detail: cure, wraps: also}
}

// badField returns the error for a hash field that holds value, quoted.
func badField(hash, field, value, bound string, also ...error) error {
	detail := fmt.Sprintf(": field %s of key %s is %s, must %s", field, hash, value, bound)
	return &Error{kind: ErrBadState, detail: detail, wraps: also}
}
