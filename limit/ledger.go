package limit

import (
	"context"
	"time"
)

// A Ledger is the limiter of most packages under limit/: one limit, or with For one limit for each key. It is
// a [Releaser], a [Reserver], a [Charger], a [Peeker], and a [Keyed] whose limiters are Ledgers.
//
// At most 2^40 permits count as taken: Charge drops any beyond. A bucket also drops the part of a debt that
// would take more than 3,660 days to pay. Reservations of a Ledger have no ID. On Redis, a Settle whose reply
// was lost is not sent again, because it might take effect twice: later calls return its error.
//
// Calls of the zero Ledger panic: InMemory and OnRedis return it beside an error.
type Ledger struct {
	form, each form // of this limit, and of those by key
	key        string
}

// A form is an algorithm in memory or on Redis. A form of one limit ignores the key.
type form interface {
	Allow(ctx context.Context, key string, n int64) (Result, error)
	Release(ctx context.Context, key string, n int64) error
	Peek(ctx context.Context, key string) (Result, error)
	Reserve(ctx context.Context, key string, n int64, timeout time.Duration) (*Reservation, error)
	TryReserve(ctx context.Context, key string, n int64) (*Reservation, Result, error)
	Charge(ctx context.Context, key string, n int64) (Result, error)
}

// NewLedger returns a Ledger: one is the form of its single limit, each that of the limits of its keys. It is
// for packages of this module.
func NewLedger(one, each form) Ledger { return Ledger{one, each, ""} }

// For returns the limit of a key of 1 to 1,024 bytes. With another key each call is an [ErrInvalidArgument].
func (l Ledger) For(key string) Ledger { return Ledger{l.each, l.each, key} }

// Allow takes n permits if they are there ([Limiter]).
func (l Ledger) Allow(ctx context.Context, n int64) (Result, error) {
	return l.form.Allow(ctx, l.key, n)
}

// Release gives back n permits, or all that are taken if there are fewer ([Releaser]).
func (l Ledger) Release(ctx context.Context, n int64) error { return l.form.Release(ctx, l.key, n) }

// Peek returns the numbers without taking anything ([Peeker]).
func (l Ledger) Peek(ctx context.Context) (Result, error) { return l.form.Peek(ctx, l.key) }

// Reserve takes n permits for a cost that is known later, waiting up to timeout ([Reserver]). It has no
// place in a line: it asks again when the permits of a refusal are due.
func (l Ledger) Reserve(ctx context.Context, n int64, timeout time.Duration) (*Reservation, error) {
	return l.form.Reserve(ctx, l.key, n, timeout)
}

// TryReserve is Reserve without waiting, and returns the numbers as Allow does.
func (l Ledger) TryReserve(ctx context.Context, n int64) (*Reservation, Result, error) {
	return l.form.TryReserve(ctx, l.key, n)
}

// Charge takes n permits, 1 to 2^40, whatever is left ([Charger]).
func (l Ledger) Charge(ctx context.Context, n int64) (Result, error) {
	return l.form.Charge(ctx, l.key, n)
}

var (
	_ Releaser      = Ledger{}
	_ Peeker        = Ledger{}
	_ Reserver      = Ledger{}
	_ Charger       = Ledger{}
	_ Keyed[Ledger] = Ledger{}
)
