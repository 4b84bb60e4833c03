package limit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
)

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
		"allowed, 0 of 10 left, 24 in debt, full again in 1s": {
			Allowed: true, Limit: 10, Debt: 24, ResetAfter: time.Second,
		},
		"refused, 0 of 10 left, 24 in debt, retry after 310ms": {
			Limit: 10, Debt: 24, RetryAfter: 310 * time.Millisecond, ResetAfter: time.Second,
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

// Times are rounded up: a caller that waits that long is not too early.
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

// A Settle after a failure settles with the amounts of the first, and one after a success asks nothing.
func TestSettleTakesEffectOnceWithTheFirstAmounts(t *testing.T) {
	var asked [][]int64
	r := limit.NewReservation(nil, func(_ context.Context, actual []int64) error {
		if asked = append(asked, actual); len(asked) == 1 {
			return limit.ErrNoAnswer
		}
		return nil
	})
	for i, want := range []error{limit.ErrNoAnswer, nil, nil} {
		if err := r.Settle(t.Context(), int64(i+3)); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if got, want := fmt.Sprint(asked), "[[3] [3]]"; got != want {
		t.Errorf("asked with %s, want %s", got, want)
	}
}

// An endsLate is a context that ends after its first look.
type endsLate struct {
	context.Context
	looks int
}

func (e *endsLate) Err() error {
	if e.looks++; e.looks > 1 {
		return context.Canceled
	}
	return nil
}

// A Settle whose context ends before it asks the store has no effect, and the next one settles.
func TestASettleThatAsksNothingIsRepeated(t *testing.T) {
	l := redistest.Must(slidingwindow.Log{Rate: 3, Interval: time.Hour}.InMemory())(t)
	r, _, _ := l.TryReserve(t.Context(), 3)
	first, then := r.Cancel(&endsLate{Context: t.Context()}), r.Cancel(t.Context())
	if left := redistest.Must(l.Peek(t.Context()))(t).Remaining; first == nil || then != nil || left != 3 {
		t.Errorf("%v, %v, %d left", first, then, left)
	}
}

// Callers without a deadline that settle one Reservation at once share the error of a silent store: none
// waits for those ahead as well. A later call tries again.
func TestSettleOfASilentStoreIsWaitedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent, calls := errors.New("silent"), 0
		r := limit.NewReservation(nil, func(context.Context, []int64) error {
			calls++
			time.Sleep(20 * time.Second)
			return silent
		})
		start := time.Now()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if err := r.Settle(context.Background(), 1); !errors.Is(err, silent) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(start); took != 20*time.Second || calls != 1 {
			t.Errorf("%d calls in %v", calls, took)
		}
		if err := r.Settle(context.Background(), 1); !errors.Is(err, silent) || calls != 2 {
			t.Errorf("%v after %d calls", err, calls)
		}
	})
}
