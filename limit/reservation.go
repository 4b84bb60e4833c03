package limit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Reserver is a Limiter for costs that are known only afterwards: a caller reserves an estimate and
// settles what it used.
type Reserver interface {
	Limiter

	// Reserve takes n permits, waiting up to timeout. If they are refused, the Reservation and the error are
	// nil. The errors are those of Allow.
	Reserve(ctx context.Context, n int64, timeout time.Duration) (*Reservation, error)

	// TryReserve is Reserve without waiting, and returns the numbers as Allow does.
	TryReserve(ctx context.Context, n int64) (*Reservation, Result, error)
}

// A Charger is a Limiter that takes what was spent, whatever is left.
type Charger interface {
	Limiter

	// Charge takes n permits and is never refused. If fewer are left, the rest is a debt (Result.Debt), and
	// no permits are granted until it is paid. n may be more than the limit. If n is less than 1, the error
	// is ErrInvalidArgument. After another error n may be charged or not.
	Charge(ctx context.Context, n int64) (Result, error)
}

// A Reservation holds permits for a cost that is known later. Settle it with what was used. If it is never
// settled, the estimate counts as used: there is nothing to close. It is safe for concurrent use.
type Reservation struct {
	id     func() string
	settle func(ctx context.Context, actual []int64) error

	failures atomic.Int64  // of settle, of callers whose context had not ended
	once     sync.Once     // makes turn, which a reservation that is never settled does not need
	turn     chan struct{} // full while a caller settles
	actual   []int64       // of the first Settle; guarded by turn, as below
	settled  bool
	err      error // of the last failure
}

// NewReservation returns a Reservation for the author of a Reserver. id returns its ID; nil if it has none.
// settle settles it. settle is called by one goroutine at a time, until it returns nil, and always with the
// amounts of the first call, unless that call returned an ErrInvalidArgument.
func NewReservation(
	id func() string, settle func(ctx context.Context, actual []int64) error,
) *Reservation {
	return &Reservation{id: id, settle: settle}
}

// ID returns a text by which another process can settle the reservation; empty if there is none.
func (r *Reservation) ID() string {
	if r == nil || r.id == nil {
		return ""
	}
	return r.id()
}

// Settle takes the number of permits that were used, 0 or more: of a Group one number for each limiter, or
// one that holds for every limiter. If fewer were used than reserved, the rest comes back, unless it has
// already. If more were used, the difference is charged, whatever is left (Charger). If the estimate was
// right, Settle does not call the store.
//
// Settle takes effect once. A second Settle changes nothing and returns nil. After an error other than
// ErrInvalidArgument it is unknown whether the first took effect. A second Settle within a minute then
// finds out, and if need be settles with the amounts of the first.
//
// A nil Reservation, which is what a refused Reserve returns, cannot be settled: the error is an
// ErrInvalidArgument.
func (r *Reservation) Settle(ctx context.Context, actual ...int64) error {
	if r == nil || r.settle == nil {
		return fmt.Errorf("%w: no reservation to settle: a refused Reserve returns nil", ErrInvalidArgument)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	failures := r.failures.Load()
	r.once.Do(func() { r.turn = make(chan struct{}, 1) })
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.turn }()
	if r.settled {
		return nil
	}
	// A silent store would hold a caller without a deadline once more for each caller ahead.
	if _, dated := ctx.Deadline(); !dated && r.failures.Load() > failures {
		return r.err
	}
	first := r.actual == nil
	if first {
		r.actual = append([]int64{}, actual...)
	}
	err := r.settle(ctx, slices.Clone(r.actual))
	r.settled = err == nil
	switch invalid := errors.Is(err, ErrInvalidArgument); {
	case invalid && first:
		r.actual = nil
	case err != nil && !invalid && ctx.Err() == nil:
		r.err = err
		r.failures.Add(1)
	}
	return err
}

// Cancel is Settle with nothing used.
func (r *Reservation) Cancel(ctx context.Context) error { return r.Settle(ctx, 0) }
