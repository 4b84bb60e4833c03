// Package limit defines the interfaces of all limiters of this module, the numbers that they return, and
// the errors. Middleware needs no more. It has no dependencies.
//
// A [Limiter] is one limit. A [Keyed] has one for each key, such as a user or an address. Some limiters do
// more: an [Acquirer] waits for permits, a [Releaser] takes them back, a [Reserver] is for costs that are
// known afterwards, a [Charger] takes what was spent, a [Peeker] shows the numbers. The limiters of the
// packages under limit/ are each a [Ledger], or a type of their package. Package limittest checks that a
// limiter keeps the rules of this package.
package limit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Limiter is one limit. It is safe for concurrent use.
type Limiter interface {
	// Allow takes n permits if they are there now, and returns the numbers of the
	// attempt. It does not wait for permits. A refusal is not an error: Allowed is false,
	// and nothing was taken. On an error nothing is kept, and the Result is zero. If n is
	// less than 1, the error is ErrInvalidArgument; if n is more than can ever be there,
	// it is ErrPermitsExceedRate. If ctx has ended, nothing is taken, and errors.Is(err,
	// ctx.Err()) holds.
	Allow(ctx context.Context, n int64) (Result, error)
}

// A Keyed has a limit for each key, such as a user or an address. It is safe for concurrent use. L is the
// type of its limiters, which may do more than a Limiter must.
type Keyed[L Limiter] interface {
	// For returns the limiter of a key. It does not ask the store, and is cheap enough for each request.
	// Keys do not affect each other. If a key is unusable, such as an empty one, each call of its limiter
	// returns an ErrInvalidArgument.
	For(key string) L
}

// An Acquirer is a Limiter that can wait for permits.
type Acquirer interface {
	Limiter

	// Acquire waits for n permits and takes them. n and the errors are those of Allow. If
	// ctx ends first, nothing is taken, and errors.Is(err, ctx.Err()) holds; if nothing else
	// went wrong, err is ctx.Err() itself.
	Acquire(ctx context.Context, n int64) error
}

// A Releaser is a Limiter that takes back unused permits.
type Releaser interface {
	Limiter

	// Release gives back n permits, or all that are taken if there are fewer. n is that of Allow. After an
	// error of the store they may be back or not.
	Release(ctx context.Context, n int64) error
}

// A Peeker is a Limiter whose numbers can be read. All limiters of the packages under limit/ are Peekers.
type Peeker interface {
	Limiter

	// Peek takes nothing: Allowed reports whether one permit is there, and RetryAfter when it will be. The
	// other numbers are those of Allow. It only reads, on Redis in one round trip. Its errors are those of
	// Allow.
	Peek(ctx context.Context) (Result, error)
}

// Validate calls the method Validate of a limiter, and returns nil for a limiter without one. The method
// checks the arguments that the limiter was made with, without asking the store, and returns nil, or an
// ErrMisconfigured that names the invalid argument. Middleware calls it before the first request.
func Validate(limiter any) error {
	if v, ok := limiter.(interface{ Validate() error }); ok {
		return v.Validate()
	}
	return nil
}

// An Option changes a limiter in memory.
type Option func(*Settings)

// Settings are what options change. The author of a limiter reads them with SettingsOf.
type Settings struct {
	// Now is the clock. Nil means the monotonic clock of the machine.
	Now func() time.Time

	// MostKeys is the number of keys with a limit of their own. 0 means all.
	MostKeys int
}

// WithClock makes a limiter use another clock, such as that of a simulation. Many goroutines may call
// now at once.
func WithClock(now func() time.Time) Option { return func(s *Settings) { s.Now = now } }

// WithMostKeys bounds the memory of a limiter whose keys are chosen by untrusted callers. While about n keys
// are in use, further keys share n limits, which a hash assigns. At most 3n limits are kept, or 128 if that
// is more. If n is 0 or less, there is no bound.
func WithMostKeys(n int) Option { return func(s *Settings) { s.MostKeys = n } }

// SettingsOf returns the Settings that options make.
func SettingsOf(opts []Option) (s Settings) {
	for _, o := range opts {
		if o != nil {
			o(&s)
		}
	}
	return s
}

// The errors of all limiters. Test with errors.Is: limiters wrap them with the details.
var (
	// ErrInvalidArgument: an argument is out of its bounds. Nothing was written.
	ErrInvalidArgument = errors.New("rratelimiter: invalid argument")

	// ErrMisconfigured: the limiter was made with an argument out of its bounds, so every call
	// fails, even with valid arguments. It is also an ErrInvalidArgument.
	ErrMisconfigured = fmt.Errorf("%w of the limiter itself", ErrInvalidArgument)

	// ErrNoAnswer: Redis did not reply in time. The request may have been carried out or not.
	ErrNoAnswer = errors.New("rratelimiter: no answer from Redis")

	// ErrPermitsExceedRate: the call asked for more permits than can ever be there at
	// once, so waiting would not help.
	ErrPermitsExceedRate = errors.New("rratelimiter: permits exceed the rate")

	// ErrNoReservation: a context has no reservation to settle, because no middleware with the option to
	// reserve decided about its request.
	ErrNoReservation = errors.New("rratelimiter: no reservation to settle")
)

// A Result holds the numbers of one attempt, named as in HTTP (the RateLimit header
// fields of draft-ietf-httpapi-ratelimit-headers; Retry-After of RFC 9110).
type Result struct {
	// Allowed reports whether the permits were taken; after a Peek, whether one permit
	// could be taken now.
	Allowed bool

	// Name is the name of the limiter that decided. Where several decide, it names the
	// limiter that binds: the one with the longest RetryAfter if they refuse, otherwise
	// the one with the smallest part of its Limit left. It may contain a user's name, so
	// keep it from visitors and metrics. Empty if there is none.
	Name string

	// Policy is a name of the limit that visitors may see: 1 to 64 printable ASCII
	// characters. Empty if there is none.
	Policy string

	// Limit is the most permits that can be there: the rate, or the capacity of a bucket.
	// 0 if unknown; with an Interval, it is a limit that never grants.
	Limit int64

	// Interval is the time within which Limit permits come back: the interval of the rate,
	// or the time in which a bucket fills. 0 if unknown.
	Interval time.Duration

	// Remaining is the number of permits that are left, between 0 and Limit, and
	// never more than are really there.
	Remaining int64

	// Debt is the number of permits taken beyond Limit: by charges (Charger), or because the
	// limit was lowered. It is 0 unless Remaining is 0.
	Debt int64

	// RetryAfter is the time until the refused permits will be there if no other caller
	// takes them; 0 if Allowed. It is never too short. It is too long if permits are
	// given back meanwhile.
	RetryAfter time.Duration

	// ResetAfter is the time until all permits are back if none are taken; 0 if all are
	// there.
	ResetAfter time.Duration

	// Degraded reports that the limiter decided without the shared store, which has
	// failed or is switched off.
	Degraded bool

	// Each has the Results of all limits, in their order, where several decide in one
	// call. Otherwise it is nil.
	Each []Result
}

// Func is a function as a Limiter.
type Func func(ctx context.Context, n int64) (Result, error)

// Allow calls f.
func (f Func) Allow(ctx context.Context, n int64) (Result, error) { return f(ctx, n) }

// KeyedFunc returns a function as a Keyed. Each For calls it.
func KeyedFunc[L Limiter](limiterOf func(key string) L) Keyed[L] { return keyedFunc[L](limiterOf) }

type keyedFunc[L Limiter] func(key string) L

// For calls f.
func (f keyedFunc[L]) For(key string) L { return f(key) }

// Shared returns a Keyed with the same limiter for every key, even an empty one.
func Shared[L Limiter](limiter L) Keyed[L] { return shared[L]{limiter} }

type shared[L Limiter] struct{ limiter L }

// For returns the limiter of all keys.
func (s shared[L]) For(string) L { return s.limiter }

// Validate returns the error of the limiter.
func (s shared[L]) Validate() error { return Validate(s.limiter) }
