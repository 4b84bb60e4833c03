// Package failure has the errors of a call, in the words of this library. The exported method that was called
// adds the name of the limiter, once.
package failure

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

// ErrBudgetSpent is why a caller leaves whose budget is spent: the cause of its context.
var ErrBudgetSpent = errors.New("the budget is spent")

// An Error is an error in the words of this library. It is made without the name of its
// limiter, which may have several names. The exported method that was called adds the
// name once (Target.Named of internal/request).
type Error struct {
	Kind   error   // the sentinel, nil if there is none
	Prefix string  // the text before the name; empty for that of Kind
	Detail string  // the text after the name
	Cause  error   // the end of the text, nil if there is none
	Wraps  []error // further errors to unwrap, without text
	name   string  // quoted; empty until it is known
}

// Error returns the text.
func (e *Error) Error() string {
	text := e.Prefix
	if text == "" {
		text = e.Kind.Error() + " for "
	}
	text += e.name + e.Detail
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Unwrap returns Kind, Cause and Wraps.
func (e *Error) Unwrap() []error {
	all := make([]error, 0, 2+len(e.Wraps))
	for _, err := range append([]error{e.Kind, e.Cause}, e.Wraps...) {
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

// Of returns err as an Error with the name of a limiter. ErrClosed and the end of a context stay unchanged,
// so that callers may compare them, as does an Error with a name.
func Of(name string, err error) error {
	err = Named(err, name)
	_, ours := err.(*Error)
	switch {
	case ours, err == nil, err == ErrClosed, err == context.Canceled, err == context.DeadlineExceeded:
		return err
	case redisx.Answered(err), errors.Is(err, redisx.ErrShape):
		return &Error{Prefix: "rratelimiter: ", name: strconv.Quote(name), Cause: err}
	}
	return &Error{Kind: limit.ErrNoAnswer, name: strconv.Quote(name), Cause: err}
}

// Named adds the name of a limiter to each Error in err that has none. It copies the Error, because many
// callers get one error, and each adds its name.
func Named(err error, name string) error {
	switch e := err.(type) {
	case *Error:
		if e.name == "" {
			named := *e
			named.name, named.Cause = strconv.Quote(name), Named(e.Cause, name)
			return &named
		}
	// The context's own error gets no name: callers compare it by errors.Is.
	case *endError:
		return &endError{e.ended, Named(e.lastFailure, name)}
	}
	return err
}

// Invalid returns the error for an argument that is out of bounds.
func Invalid(argument string, value any, bound string) error {
	return &Error{Kind: limit.ErrInvalidArgument, Detail: outOfBounds(argument, value, bound)}
}

// InvalidOf is Invalid for a function that belongs to no limiter, such as New.
func InvalidOf(function, argument string, value any, bound string) error {
	before := limit.ErrInvalidArgument.Error() + " of "
	detail := outOfBounds(argument, value, bound)
	return &Error{Kind: limit.ErrInvalidArgument, Prefix: before, name: function, Detail: detail}
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
	// Clip Wraps: appending in place could write to an array that err shares.
	config.Wraps = append(config.Wraps[:len(e.Wraps):len(e.Wraps)], limit.ErrMisconfigured)
	return &config
}

// Unanswered returns the error of a call that ended before Redis had replied: the
// reason why it ended, and the last failure if there was one.
func Unanswered(why, cause error) error {
	switch {
	case cause != nil && errors.Is(cause, why):
		return cause
	case why == limit.ErrNoAnswer:
		return &Error{Kind: why, Cause: cause}
	case cause != nil:
		return &endError{why, cause}
	}
	return why
}

// NotHeld returns the error of a refused Acquire. With nil the caller would believe that
// it holds the permits.
func NotHeld() error { return Unanswered(limit.ErrNoAnswer, nil) }

// Silent returns the error of a call whose budget is spent, with the last
// failure.
func Silent(budget time.Duration, cause error) error {
	return &Error{Kind: limit.ErrNoAnswer, Detail: fmt.Sprintf(" within %v", budget), Cause: cause}
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
			if e.Cause == nil {
				return strings.TrimPrefix(fmt.Sprint(e.Kind), "rratelimiter: ") + e.Detail
			}
			err = e.Cause
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
	return &Error{Kind: limit.ErrNoAnswer, Detail: ": Redis is not asked, for it has failed", Cause: cause}
}

// WithContextEnd returns err, joined with the end of ctx if that ended the call.
// go-redis may report the end as a timeout of the network alone.
func WithContextEnd(ctx context.Context, err error) error {
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
	return Unanswered(why, err)
}

// Exceeds returns the error for permits that can never be there.
func Exceeds(permits, rate int64) error {
	return &Error{
		Kind: limit.ErrPermitsExceedRate, Prefix: limit.ErrPermitsExceedRate.Error() + " of ",
		Detail: fmt.Sprintf(": permits is %d, must be at most %d", permits, rate),
	}
}

// NotInitialized returns the error for a limiter without a rate, which names the cure.
func NotInitialized(also ...error) error {
	const cure = ": set one by WithRate, TrySetRate or rrl set"
	return &Error{Kind: ErrNotInitialized, Detail: cure, Wraps: also}
}

// BadField returns the error for a hash field that holds value, quoted.
func BadField(hash, field, value, bound string, also ...error) error {
	detail := fmt.Sprintf(": field %s of key %s is %s, must %s", field, hash, value, bound)
	return &Error{Kind: ErrBadState, Detail: detail, Wraps: also}
}
