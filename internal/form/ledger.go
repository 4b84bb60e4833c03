package form

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redisson-go/rratelimiter/internal/pause"
	"github.com/redisson-go/rratelimiter/limit"
)

// Ledger returns the Ledger of forms whose Rule has charges. If err is not nil, it returns only err.
func Ledger(f Forms, err error) (limit.Ledger, error) {
	if err != nil {
		return limit.Ledger{}, err
	}
	return limit.NewLedger(books{f.One}, books{f.Each}), nil
}

// books reserve and settle permits of a Form.
type books struct{ Form }

// Reserve asks again when refused permits are due, unless that is after the timeout.
func (b books) Reserve(
	ctx context.Context, key string, n int64, timeout time.Duration,
) (*limit.Reservation, error) {
	for end := time.Now().Add(max(0, timeout)); ; {
		r, result, err := b.TryReserve(ctx, key, n)
		if err != nil || r != nil || time.Until(end) < result.RetryAfter {
			return r, err
		}
		if err := b.pause(ctx, result.RetryAfter); err != nil {
			return nil, err
		}
	}
}

// pause waits for d, until ctx ends or the Client is closed.
func (b books) pause(ctx context.Context, d time.Duration) error {
	var conn Conn
	if h, ok := b.Form.(hosted); ok {
		conn = h.Conn
	}
	return conn.Wait(ctx, func(ctx context.Context) error {
		if err := pause.For(ctx, d); err != nil {
			return fmt.Errorf("rratelimiter: %w", err)
		}
		return nil
	})
}

// TryReserve is Reserve without waiting.
func (b books) TryReserve(
	ctx context.Context, key string, n int64,
) (*limit.Reservation, limit.Result, error) {
	return TryReserve(ctx, b.Form, key, n, MostPermits)
}

// TryReserve takes n permits. A Settle with fewer gives back the difference; a Settle with more, up to
// most, charges it.
func TryReserve(
	ctx context.Context, f Form, key string, n, most int64,
) (*limit.Reservation, limit.Result, error) {
	r, d, err := f.Lend(ctx, key, n)
	if err != nil || !r.Allowed {
		return nil, r, err
	}
	var asked struct { // one allocation
		done bool
		err  error
	}
	return limit.NewReservation(nil, func(ctx context.Context, actual []int64) error {
		switch {
		case len(actual) != 1 || actual[0] < 0 || actual[0] > most:
			return fmt.Errorf("%w: a reservation used %v permits, must be one number from 0 to %d",
				limit.ErrInvalidArgument, actual, most)
		case asked.done: // it may have taken effect
			return asked.err
		}
		switch used := actual[0]; {
		case used < n:
			asked.err = f.Return(ctx, key, n-used, d)
		case used > n:
			_, asked.err = f.Charge(ctx, key, used-n)
		}
		asked.done = !errors.As(asked.err, new(unsent))
		return asked.err
	}), r, nil
}
