package admission

import (
	"cmp"
	"context"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// Limits are the limits of a Keyed, whatever the type of its limiters.
type Limits struct {
	Allow func(ctx context.Context, key string, n int64) (limit.Result, error)

	// Acquire is nil if the limiters are no Acquirers.
	Acquire func(ctx context.Context, key string, n int64) error

	// Reserve and TryReserve are nil if they are no Reservers.
	Reserve func(ctx context.Context, key string, n int64, timeout time.Duration) (*limit.Reservation, error)

	TryReserve func(ctx context.Context, key string, n int64) (*limit.Reservation, limit.Result, error)
}

// LimitsOf returns the limits of keyed, or the error of its Validate or that of its limiters. One limiter
// shows what all of them can do.
func LimitsOf[L limit.Limiter](keyed limit.Keyed[L]) (Limits, error) {
	one := any(keyed.For("key"))
	if err := cmp.Or(limit.Validate(keyed), limit.Validate(one)); err != nil {
		return Limits{}, err
	}
	all := Limits{Allow: func(ctx context.Context, key string, n int64) (limit.Result, error) {
		return keyed.For(key).Allow(ctx, n)
	}}
	if _, ok := one.(limit.Acquirer); ok {
		all.Acquire = func(ctx context.Context, key string, n int64) error {
			return any(keyed.For(key)).(limit.Acquirer).Acquire(ctx, n)
		}
	}
	ledgers, ok := any(keyed).(limit.Keyed[limit.Ledger])
	switch _, reserves := one.(limit.Reserver); {
	case ok: // converting a Ledger to a Reserver would allocate
		reserve(&all, ledgers)
	case reserves:
		reserve(&all, limit.KeyedFunc(func(key string) limit.Reserver {
			if reserver, ok := any(keyed.For(key)).(limit.Reserver); ok {
				return reserver
			}
			return nil
		}))
	}
	return all, nil
}

// reserve sets Reserve and TryReserve.
func reserve[L limit.Reserver](all *Limits, keyed limit.Keyed[L]) {
	all.Reserve = func(
		ctx context.Context, key string, n int64, timeout time.Duration,
	) (*limit.Reservation, error) {
		return keyed.For(key).Reserve(ctx, n, timeout)
	}
	all.TryReserve = func(
		ctx context.Context, key string, n int64,
	) (*limit.Reservation, limit.Result, error) {
		return keyed.For(key).TryReserve(ctx, n)
	}
}
