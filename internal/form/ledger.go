package form

import (
	"context"
	"fmt"
	"time"

	"github.com/redisson-go/rratelimiter/internal/pause"
	"github.com/redisson-go/rratelimiter/limit"
)

// Ledger returns a limiter as a limit.Ledger, or the error of its making. The Rule of the limiter has
// charges.
func Ledger(l Lone, err error) (limit.Ledger, error) {
	if err != nil {
		return nil, err
	}
	return ledger{l, books{l}}, nil
}

// KeyedLedger is Ledger for a limiter with keys.
func KeyedLedger(l Keyed, err error) (limit.KeyedLedger, error) {
	if err != nil {
		return nil, err
	}
	return keyedLedger{l, books{l}}, nil
}

type ledger struct {
	Lone
	books books
}

// Reserve implements limit.Reserver.
func (l ledger) Reserve(ctx context.Context, n int64, timeout time.Duration) (*limit.Reservation, error) {
	return l.books.reserve(ctx, "", n, timeout)
}

// TryReserve implements limit.Reserver.
func (l ledger) TryReserve(ctx context.Context, n int64) (*limit.Reservation, limit.Result, error) {
	return l.books.tryReserve(ctx, "", n)
}

// Charge implements limit.Charger.
func (l ledger) Charge(ctx context.Context, n int64) (limit.Result, error) {
	return l.books.Debit(ctx, "", n)
}

type keyedLedger struct {
	Keyed
	books books
}

// Reserve implements limit.KeyedReserver.
func (l keyedLedger) Reserve(
	ctx context.Context, key string, n int64, timeout time.Duration,
) (*limit.Reservation, error) {
	return l.books.reserve(ctx, key, n, timeout)
}

// TryReserve implements limit.KeyedReserver.
func (l keyedLedger) TryReserve(
	ctx context.Context, key string, n int64,
) (*limit.Reservation, limit.Result, error) {
	return l.books.tryReserve(ctx, key, n)
}

// Charge implements limit.KeyedCharger.
func (l keyedLedger) Charge(ctx context.Context, key string, n int64) (limit.Result, error) {
	return l.books.Debit(ctx, key, n)
}

// books make reservations of grants that can be returned.
type books struct{ Form }

// reserve asks again when the permits of a refusal are due, until that is too late.
func (b books) reserve(
	ctx context.Context, key string, n int64, timeout time.Duration,
) (*limit.Reservation, error) {
	for end := time.Now().Add(max(0, timeout)); ; {
		r, result, err := b.tryReserve(ctx, key, n)
		if err != nil || r != nil || time.Until(end) < result.RetryAfter {
			return r, err
		}
		if err := pause.For(ctx, result.RetryAfter); err != nil {
			return nil, fmt.Errorf("rratelimiter: %w", err)
		}
	}
}

func (b books) tryReserve(
	ctx context.Context, key string, n int64,
) (*limit.Reservation, limit.Result, error) {
	r, d, err := b.Lend(ctx, key, n)
	if err != nil || !r.Allowed {
		return nil, r, err
	}
	asked := false
	var failed error
	return limit.NewReservation(nil, func(ctx context.Context, actual []int64) error {
		switch {
		case len(actual) != 1 || actual[0] < 0 || actual[0] > MostPermits:
			return fmt.Errorf("%w: a reservation used %v permits, must be one number from 0 to 2^40",
				limit.ErrInvalidArgument, actual)
		case asked: // it may have taken effect
			return failed
		}
		asked = true
		switch used := actual[0]; {
		case used < n:
			failed = b.Return(ctx, key, n-used, d)
		case used > n:
			_, failed = b.Debit(ctx, key, used-n)
		}
		return failed
	}), r, nil
}
