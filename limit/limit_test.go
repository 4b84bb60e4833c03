package limit_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// An acquirer returns the calls of its Acquire as errors.
type acquirer struct{ limit.Func }

func (acquirer) Acquire(_ context.Context, n int64) error { return fmt.Errorf("acquired %d", n) }

// Shared and Of keep the Acquire of a limiter, and invent none.
func TestSharedAndOfKeepAcquire(t *testing.T) {
	allow := limit.Func(func(_ context.Context, n int64) (limit.Result, error) {
		return limit.Result{Allowed: true, Remaining: n}, nil
	})
	shared, ok := limit.Shared(acquirer{allow}).(limit.KeyedAcquirer)
	if !ok {
		t.Fatal("Shared drops Acquire")
	}
	of, ok := limit.Of(shared, "key").(limit.Acquirer)
	if !ok {
		t.Fatal("Of drops Acquire")
	}
	if err := shared.Acquire(t.Context(), "key", 2); err == nil || err.Error() != "acquired 2" {
		t.Error(err)
	}
	if err := of.Acquire(t.Context(), 3); err == nil || err.Error() != "acquired 3" {
		t.Error(err)
	}
	if r, err := of.Allow(t.Context(), 4); r.Remaining != 4 || err != nil {
		t.Error(r, err)
	}
	plain := limit.Shared(allow)
	if _, ok := plain.(limit.KeyedAcquirer); ok {
		t.Error("Shared invents Acquire")
	}
	if _, ok := limit.Of(plain, "key").(limit.Acquirer); ok {
		t.Error("Of invents Acquire")
	}
}

// A reserver refuses more than 9 permits, and has nothing else to say about a reservation.
type reserver struct{ limit.Limiter }

func (reserver) Reserve(_ context.Context, n int64, timeout time.Duration) (*limit.Reservation, error) {
	if timeout != 0 || n > 9 {
		return nil, nil
	}
	return limit.NewReservation(nil, func(context.Context, []int64) error { return nil }), nil
}

// A counting is a reserver that returns the numbers of an attempt.
type counting struct{ reserver }

func (c counting) TryReserve(ctx context.Context, n int64) (*limit.Reservation, limit.Result, error) {
	r, err := c.Reserve(ctx, n, 0)
	return r, limit.Result{Allowed: r != nil, Limit: 9}, err
}

// both is an Acquirer and a Reserver.
type both struct {
	acquirer
	r reserver
}

func (b both) Reserve(ctx context.Context, n int64, timeout time.Duration) (*limit.Reservation, error) {
	return b.r.Reserve(ctx, n, timeout)
}

// Shared keeps Reserve of a limiter, beside Acquire and without it, and invents none. TryReserve returns the
// numbers that the limiter knows.
func TestSharedKeepsReserve(t *testing.T) {
	allow := limit.Func(func(context.Context, int64) (limit.Result, error) { return limit.Result{}, nil })
	for name, test := range map[string]struct {
		limiter  limit.Limiter
		acquires bool
		limit    int64
	}{
		"a Reserver":                  {reserver{allow}, false, 0},
		"a Reserver that is Acquirer": {both{acquirer{allow}, reserver{}}, true, 0},
		"a Reserver with numbers":     {counting{reserver{allow}}, false, 9},
	} {
		shared := limit.Shared(test.limiter)
		if _, acquires := shared.(limit.KeyedAcquirer); acquires != test.acquires {
			t.Errorf("%s: Acquire is there: %v", name, acquires)
		}
		keyed, ok := shared.(limit.KeyedReserver)
		if !ok {
			t.Fatalf("%s: Shared drops Reserve", name)
		}
		for n, want := range map[int64]bool{9: true, 10: false} {
			r, result, err := limit.TryReserve(t.Context(), keyed, "key", n)
			if err != nil || (r != nil) != want || result.Allowed != want || result.Limit != test.limit {
				t.Errorf("%s: %d permits: %v, %+v, %v", name, n, r, result, err)
			}
		}
	}
	if _, ok := limit.Shared(acquirer{allow}).(limit.KeyedReserver); ok {
		t.Error("Shared invents Reserve")
	}
}

// String leaves out unknown numbers, and Name.
func TestAResultIsALine(t *testing.T) {
	for want, r := range map[string]limit.Result{
		"allowed, 7 of 10 left, full again in 1.2s": {
			Allowed: true, Limit: 10, Remaining: 7, ResetAfter: 1200 * time.Millisecond,
		},
		"allowed, 10 of 10 left": {Allowed: true, Limit: 10, Remaining: 10},
		"refused, 0 of 10 left, retry after 310ms": {
			Limit: 10, RetryAfter: 310 * time.Millisecond, ResetAfter: time.Second,
		},
		"refused, 3 of 10 left, full again in 1m0s": {Limit: 10, Remaining: 3, ResetAfter: time.Minute},
		"refused": {},
		"allowed (degraded), 2 of 5 left, full again in 9s": {
			Allowed: true, Limit: 5, Remaining: 2, ResetAfter: 9 * time.Second, Degraded: true,
		},
		"allowed (degraded)":                   {Allowed: true, Degraded: true},
		"refused (degraded), retry after 1s":   {RetryAfter: time.Second, Degraded: true},
		"refused, 0 of 1 left, retry after 1s": {Name: "secret", Limit: 1, RetryAfter: time.Second},
	} {
		if got := r.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := fmt.Sprint(r); got != want {
			t.Errorf("printed: %q, want %q", got, want)
		}
	}
}

// Times are rounded up, so that a caller who waits that long does not come too early.
func TestTimesOfALineAreRoundedUp(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1: "1ns", 999: "999ns", 1001: "1.01µs", 310_000_001: "311ms", 999_500_000: "1s",
		1_234_567_890: "1.24s", 59_999_000_001: "1m0s", 61_000_000_001: "1m1.1s",
		25*time.Hour + 1: "25h0m1s", math.MaxInt64: time.Duration(math.MaxInt64).String(),
	} {
		if got := (limit.Result{RetryAfter: d}).String(); got != "refused, retry after "+want {
			t.Errorf("%d: %q, want %s", d, got, want)
		}
	}
}
