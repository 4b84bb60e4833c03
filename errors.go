package rratelimiter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// The errors of this package. Test with errors.Is: what a method returns wraps one
// of these with the name of the limiter, quoted, the argument or key, its value and
// the bound. ErrClosed and a refused option of New belong to the Client and name no
// limiter. If a context has ended and nothing else is known, the error is ctx.Err()
// itself. Errors of go-redis are wrapped; if a *redis.Client meets a node of a
// cluster, the error says so.
var (
	// ErrNotInitialized: no rate is set under this name, or its hash lacks
	// rate, interval or type (Redisson: "RateLimiter is not initialized").
	ErrNotInitialized = errors.New("rratelimiter: no rate is set")

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
	ErrBadState = errors.New("rratelimiter: unreadable state in Redis")

	// ErrNoNotifications: the server does not send what a listener wants to
	// hear (its setting notify-keyspace-events).
	ErrNoNotifications = errors.New("rratelimiter: keyspace notifications are off")

	// ErrNoAnswer: Redis has not replied: the timeout has passed, or go-redis
	// has given up. Nobody knows whether the request was carried out; what an
	// acquire may have taken is given back. The error also wraps what the network
	// said last, if it said anything. A reply that is an error, such as OOM or
	// READONLY, is no ErrNoAnswer, and neither is the end of a context.
	ErrNoAnswer = limit.ErrNoAnswer

	// ErrNotReplicated: Redis has done what was asked, but fewer replicas than
	// WithMinReplicas wants had it in time. What an acquire took is given back; what
	// else was asked for, such as a rate, has been done.
	ErrNotReplicated = errors.New("rratelimiter: too few replicas")

	// ErrClosed: the Client was closed before the call, or while it waited.
	ErrClosed = errors.New("rratelimiter: client is closed")
)

// An argumentError is an ErrInvalidArgument. The checks of arguments know no
// limiter; the method that was called adds its name.
type argumentError struct {
	whose    string // `for "NAME"` or "of New"
	argument string
	value    any
	bound    string // what follows "must"
}

func (e *argumentError) Error() string {
	return fmt.Sprintf("%v %s: %s is %v, must %s", ErrInvalidArgument, e.whose, e.argument, e.value, e.bound)
}

func (e *argumentError) Unwrap() error { return ErrInvalidArgument }

// invalid returns the error for an argument out of its bounds.
func invalid(argument string, value any, bound string) error {
	return &argumentError{argument: argument, value: value, bound: bound}
}

// named returns err with the name of the limiter, if it does not have it yet.
// The end of a context stays what it is.
func (k *limiterKeys) named(err error) error {
	if e, ok := errors.AsType[*argumentError](err); ok && e.whose == "" {
		named := *e
		named.whose = fmt.Sprintf("for %q", k.name)
		return &named
	}
	if err == nil || err == context.Canceled || err == context.DeadlineExceeded || ours(err) {
		return err
	}
	if !redisx.Answered(err) && !errors.Is(err, redisx.ErrShape) {
		return fmt.Errorf("%w for %q: %w", ErrNoAnswer, k.name, err)
	}
	return fmt.Errorf("rratelimiter: %q: %w", k.name, err)
}

// ours reports whether an error is one of this package already.
func ours(err error) bool { return strings.HasPrefix(err.Error(), "rratelimiter: ") }

// unanswered is the error of a call that ended before Redis had replied: why it
// ended, and the cause for which there is no reply, if that is known.
func (k *limiterKeys) unanswered(why, cause error) error {
	switch {
	case cause != nil && errors.Is(cause, why):
		return cause
	case why == ErrNoAnswer && cause == nil:
		return fmt.Errorf("%w for %q", why, k.name)
	case why == ErrNoAnswer:
		return fmt.Errorf("%w for %q: %w", why, k.name, cause)
	case cause != nil:
		return fmt.Errorf("%w: %w", why, cause)
	}
	return why
}

// errSilent is why a caller leaves whose budget is spent.
var errSilent = errors.New("the budget is spent")

// silent is the error of a call whose budget is spent, and what the network said last.
func (k *limiterKeys) silent(budget time.Duration, cause error) error {
	if cause == nil {
		return fmt.Errorf("%w for %q within %v", ErrNoAnswer, k.name, budget)
	}
	return fmt.Errorf("%w for %q within %v: %w", ErrNoAnswer, k.name, budget, cause)
}

// notAsked is the error of a call that did not ask Redis, which has failed before.
func (k *limiterKeys) notAsked(cause error) error {
	return fmt.Errorf("%w for %q: Redis is not asked, for it has failed: %w", ErrNoAnswer, k.name, cause)
}

// ended returns err, and the end of ctx with it if that has ended the call. go-redis
// may report the end as a timeout of the network alone.
func (k *limiterKeys) ended(ctx context.Context, err error) error {
	if err == nil || redisx.Final(err) || ours(err) {
		return err
	}
	why := ctx.Err()
	if deadline, ok := ctx.Deadline(); why == nil && ok && !time.Now().Before(deadline) {
		why = context.DeadlineExceeded
	}
	if why == nil {
		return err
	}
	return k.unanswered(why, err)
}

// exceeds returns the error for permits that can never be there.
func (k *limiterKeys) exceeds(permits, rate int64) error {
	return fmt.Errorf("%w of %q: permits is %d, must be at most %d",
		ErrPermitsExceedRate, k.name, permits, rate)
}

// notInitialized returns the error for a limiter without a rate.
func (k *limiterKeys) notInitialized() error {
	return fmt.Errorf("%w for %q (see TrySetRate)", ErrNotInitialized, k.name)
}

// badField returns the error for a field of the hash that holds value, quoted.
func (k *limiterKeys) badField(field, value, bound string) error {
	return fmt.Errorf("%w for %q: field %s of key %s is %s, must %s",
		ErrBadState, k.name, field, k.Hash, value, bound)
}

// A translation is the error of a script, in the words of this package. It is still
// known as an answer of Redis.
type translation struct {
	error
	code error
}

// Unwrap returns both, for errors.Is and errors.As.
func (tr translation) Unwrap() []error { return []error{tr.error, tr.code} }

// scriptError translates the error of a script or of Redis into the errors
// above. Codes are told apart by their first word (the scripts' headers list
// them), never by a text inside.
func (k *limiterKeys) scriptError(typ RateType, err error) error {
	has := func(code string) bool { return redis.HasErrorPrefix(err, code+" ") }
	bad := func(detail string) error {
		return fmt.Errorf("%w for %q: %s", ErrBadState, k.name, k.wrongKind(typ, detail))
	}
	if _, ok := errors.AsType[*redisx.UnconfirmedError](err); ok {
		return fmt.Errorf("%w for %q: %w", ErrNotReplicated, k.name, err)
	}
	switch {
	case err == nil:
		return nil
	case has("NOTINIT"):
		return translation{k.notInitialized(), err}
	case has("BADFIELD"):
		field, value, _ := strings.Cut(redisx.Detail(err, "BADFIELD"), " ")
		return translation{k.badField(field, value, "be an integer between -2^53 and 2^53"), err}
	case has("BADKEY"):
		return translation{bad(redisx.Detail(err, "BADKEY")), err}
	case has("WRONGTYPE"): // of a plain command on the hash
		return translation{bad("1 hash"), err}
	case has("CROSSSLOT"):
		return fmt.Errorf("%w for %q: its keys are in different slots of a cluster: %w",
			ErrInvalidArgument, k.name, err)
	case redisx.Denied(err):
		const text = "rratelimiter: NOPERM for %q: the Redis user may not run a command of the script, " +
			"which ACL LOG names: %w"
		return fmt.Errorf(text, k.name, err)
	case k.client.runner.Single && (has("MOVED") || has("ASK")):
		const text = "rratelimiter: the server of %q is part of a cluster, use redis.NewClusterClient: %w"
		return fmt.Errorf(text, k.name, err)
	}
	return err
}

// misconfigured returns err as an ErrMisconfigured; nil as it is.
func misconfigured(err error) error {
	if err == nil || errors.Is(err, limit.ErrMisconfigured) {
		return err
	}
	return configError{err}
}

// A configError is an error of how something was made, whatever a call asks for.
type configError struct{ error }

// Unwrap returns the error, and that it is one of the configuration.
func (e configError) Unwrap() []error { return []error{e.error, limit.ErrMisconfigured} }
