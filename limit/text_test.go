package limit_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// A Result is a line that a person can read, whatever is known.
func TestResultIsALine(t *testing.T) {
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

// Times are rounded up: one who comes again then does not come too early.
func TestTimesOfALine(t *testing.T) {
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
