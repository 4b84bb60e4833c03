// Package limit has what all limiters of this module share: the interface that
// middleware takes, the numbers that it passes on, and the errors. It has no
// dependencies.
//
// A [Limiter] is one limit. A [Keyed] has one for each key, such as a user or an
// address. An [Acquirer] is a Limiter that can wait for permits, a [KeyedAcquirer] a
// Keyed that can. [Of] is the Limiter of one key, and [Func] and [KeyedFunc] make either
// of a function. Package limittest checks that a limiter keeps the rules written here.
package limit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Limiter is one limit. It is safe for concurrent use.
type Limiter interface {
	// Allow takes n permits if they are there now, and returns the numbers that go
	// with that. It does not wait for permits. A refusal is no error: Allowed is
	// false, and nothing was taken. On an error nothing is kept, and the Result is
	// zero. n is at least 1, otherwise the error is ErrInvalidArgument. More permits
	// than can ever be there are an ErrPermitsExceedRate. If ctx has ended, nothing is
	// taken, and errors.Is(err, ctx.Err()) holds.
	Allow(ctx context.Context, n int64) (Result, error)
}

// A Keyed has a limit for each key. It is safe for concurrent use.
type Keyed interface {
	// Allow is that of a Limiter, for the limit of key. Keys do not know of each
	// other. A key that cannot be used, as an empty one, is an ErrInvalidArgument.
	Allow(ctx context.Context, key string, n int64) (Result, error)
}

// An Acquirer is a Limiter that can wait for permits.
type Acquirer interface {
	Limiter

	// Acquire takes n permits, and waits until they are there. n and the errors are as for
	// Allow. If ctx ends first, nothing is taken, and errors.Is(err, ctx.Err()) holds; if
	// nothing else went wrong, err is ctx.Err() itself.
	Acquire(ctx context.Context, n int64) error
}

// A KeyedAcquirer is a Keyed that can wait for permits.
type KeyedAcquirer interface {
	Keyed

	// Acquire is that of an Acquirer, for the limit of key.
	Acquire(ctx context.Context, key string, n int64) error
}

// A Releaser is a Limiter that takes back what was not used.
type Releaser interface {
	Limiter

	// Release gives back n permits, as far as so many are out. n is as for Allow. After
	// an error of the store it is not known whether they are back.
	Release(ctx context.Context, n int64) error
}

// A KeyedReleaser is a Keyed that takes back what was not used.
type KeyedReleaser interface {
	Keyed

	// Release is that of a Releaser, for the limit of key.
	Release(ctx context.Context, key string, n int64) error
}

// A Validator knows whether it was made with arguments that it can work with. Middleware asks it
// before the first visitor comes.
type Validator interface {
	// Validate returns nil, or an ErrMisconfigured that says which argument is wrong. It asks
	// no store.
	Validate() error
}

// Validate returns what a Limiter or Keyed that is a Validator says of itself, and nil of others.
func Validate(limiter any) error {
	if v, ok := limiter.(Validator); ok {
		return v.Validate()
	}
	return nil
}

// An Option changes a limiter in memory.
type Option func(*Settings)

// Settings are what options change. Who writes a limiter reads them by SettingsOf.
type Settings struct {
	// Now is the clock. Nil is that of the machine, which is never set back.
	Now func() time.Time
}

// WithClock has a limiter go by another clock, such as that of a simulation. now is
// called by many goroutines at once.
func WithClock(now func() time.Time) Option { return func(s *Settings) { s.Now = now } }

// SettingsOf returns what options come to.
func SettingsOf(opts []Option) (s Settings) {
	for _, o := range opts {
		if o != nil {
			o(&s)
		}
	}
	return s
}

// The errors that all limiters have. Test with errors.Is: what a limiter returns
// wraps one of them with the details.
var (
	// ErrInvalidArgument: an argument is out of its bounds. Nothing was written.
	ErrInvalidArgument = errors.New("rratelimiter: invalid argument")

	// ErrMisconfigured: the limiter was made with an argument out of its bounds, so that each
	// call fails: who calls Allow is not to blame. It is an ErrInvalidArgument, too.
	ErrMisconfigured = fmt.Errorf("%w of the limiter itself", ErrInvalidArgument)

	// ErrNoAnswer: Redis has not replied in time. The request may have been carried out or
	// not.
	ErrNoAnswer = errors.New("rratelimiter: no answer from Redis")

	// ErrPermitsExceedRate: more permits were asked for than can ever be there at
	// once, so that no waiting would help.
	ErrPermitsExceedRate = errors.New("rratelimiter: permits exceed the rate")
)

// A Result holds the numbers of one attempt, named as in HTTP (the RateLimit header
// fields of draft-ietf-httpapi-ratelimit-headers; Retry-After of RFC 9110).
type Result struct {
	// Allowed reports whether the permits were taken. Of a Peek: whether one permit
	// could be taken now.
	Allowed bool

	// Name is the name of the limiter that decided. Where several decide, it is that
	// of the one that binds: the one with the longest RetryAfter if they refuse,
	// otherwise the one that has the smallest part of its Limit left. It may hold a
	// user's name, so it is not for visitors or metrics. Empty if there is none.
	Name string

	// Policy is a name of the limit that visitors may see: 1 to 64 characters of ASCII that
	// can be printed. Empty if there is none.
	Policy string

	// Limit is the permits that are there at most: the rate, or the capacity of a bucket.
	// 0 if it is not known.
	Limit int64

	// Interval is the time within which Limit permits come back: the interval of the rate,
	// or the time in which a bucket fills. 0 if it is not known.
	Interval time.Duration

	// Remaining is the number of permits that are left, between 0 and Limit, and
	// never more than are really there.
	Remaining int64

	// RetryAfter is the time until the permits that were refused will be there if
	// nobody else takes them; 0 if Allowed. It is never too short. If somebody gives
	// permits back, it is too long.
	RetryAfter time.Duration

	// ResetAfter is the time until all permits are back if nobody takes any; 0 if
	// all are there.
	ResetAfter time.Duration

	// Degraded reports that the limiter decided without the store that all share,
	// because that has failed or limiting is off.
	Degraded bool

	// Each has one Result for each limit, in the order in which they were given,
	// where several decide in one call. Otherwise it is nil.
	Each []Result
}

// Func is a function that is a Limiter.
type Func func(ctx context.Context, n int64) (Result, error)

// Allow calls f.
func (f Func) Allow(ctx context.Context, n int64) (Result, error) { return f(ctx, n) }

// KeyedFunc is a function that is a Keyed.
type KeyedFunc func(ctx context.Context, key string, n int64) (Result, error)

// Allow calls f.
func (f KeyedFunc) Allow(ctx context.Context, key string, n int64) (Result, error) {
	return f(ctx, key, n)
}

// Of returns the Limiter of one key. If keyed is a KeyedAcquirer, the Limiter is an Acquirer.
func Of(keyed Keyed, key string) Limiter {
	if a, ok := keyed.(KeyedAcquirer); ok {
		return acquirerOf{of{keyed, key}, a}
	}
	return of{keyed, key}
}

type of struct {
	keyed Keyed
	key   string
}

// Allow is that of the Keyed.
func (o of) Allow(ctx context.Context, n int64) (Result, error) { return o.keyed.Allow(ctx, o.key, n) }

// Validate is that of the Keyed.
func (o of) Validate() error { return Validate(o.keyed) }

type acquirerOf struct {
	of
	acquirer KeyedAcquirer
}

// Acquire is that of the KeyedAcquirer.
func (o acquirerOf) Acquire(ctx context.Context, n int64) error {
	return o.acquirer.Acquire(ctx, o.key, n)
}

// Shared returns a Keyed that has the same limit for every key, also for an empty one. If
// limiter is an Acquirer, the Keyed is a KeyedAcquirer.
func Shared(limiter Limiter) Keyed {
	if a, ok := limiter.(Acquirer); ok {
		return sharedAcquirer{shared{limiter}, a}
	}
	return shared{limiter}
}

type shared struct{ limiter Limiter }

// Allow is that of the Limiter.
func (s shared) Allow(ctx context.Context, _ string, n int64) (Result, error) {
	return s.limiter.Allow(ctx, n)
}

// Validate is that of the Limiter.
func (s shared) Validate() error { return Validate(s.limiter) }

type sharedAcquirer struct {
	shared
	acquirer Acquirer
}

// Acquire is that of the Acquirer.
func (s sharedAcquirer) Acquire(ctx context.Context, _ string, n int64) error {
	return s.acquirer.Acquire(ctx, n)
}
