package reservations_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A diary is an Observer that keeps what was taken.
type diary struct{ took []string }

func (d *diary) Observe(_ context.Context, o rratelimiter.Observation) {
	d.took = append(d.took, fmt.Sprint(o.Permits, o.Result.Allowed, o.Result.Debt, o.Result.Degraded))
	if o.Err != nil && !errors.Is(o.Err, rratelimiter.ErrInvalidArgument) {
		d.took = append(d.took, o.Err.Error())
	}
}

// wants expects calls in this order, and forgets them.
func (d *diary) wants(b *Bench, calls ...string) {
	b.Helper()
	if fmt.Sprint(d.took) != fmt.Sprint(calls) {
		b.Errorf("observed %q, want %q", d.took, calls)
	}
	d.took = nil
}

// An Observer sees what Reserve takes and what Charge and Settle charge, each with its permits. It sees no
// Settle that charges nothing.
func TestAnObserverSeesReservationsAndCharges(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		var d diary
		client := b.NewClient(rratelimiter.WithObserver(&d))
		l := b.NewLimiter(Overall, 10, time.Minute).By(client)
		r := reserve(l, 4)
		d.wants(b, "4 true 0 false")
		settle(l, r, 1)
		settle(l, r, 9)
		d.wants(b)
		r = reserve(l, 2)
		settle(l, r, 9)
		settle(l, r, 9)
		d.wants(b, "2 true 0 false", "7 true 0 false")
		b.Want(ErrOf(l.Charge(b.Context(), 3)))
		d.wants(b, "3 true 3 false")
		if _, err := l.Charge(b.Context(), 0); !errors.Is(err, rratelimiter.ErrInvalidArgument) {
			t.Error(err)
		}
		d.wants(b, "0 false 0 false")

		other := client.RateLimiter(l.Name()+"2").WithRate(100, time.Minute)
		b.Now += 60_000
		pair := client.All(l.RateLimiter, other).Amounts(1, 10)
		both, err := pair.Reserve(b.Context(), 2, 0)
		b.Want(err)
		b.Want(both.Settle(b.Context(), 3, 35))
		d.wants(b, "2 true 0 false", "15 true 0 false")
		b.Want(ErrOf(pair.Charge(b.Context(), 12)))
		d.wants(b, "12 true 55 false")
	})
}
