package limit

import (
	"fmt"
	"strings"
	"time"
)

// String returns a line for people, such as "allowed, 7 of 10 left, full again in 1.2s" or "refused, 0 of 10
// left, 24 in debt, retry after 310ms". It marks a Degraded result, and leaves out unknown numbers and Name.
// Times are rounded up, to three digits or whole seconds.
func (r Result) String() string {
	var b strings.Builder
	if r.Allowed {
		b.WriteString("allowed")
	} else {
		b.WriteString("refused")
	}
	if r.Degraded {
		b.WriteString(" (degraded)")
	}
	if r.Limit > 0 {
		fmt.Fprintf(&b, ", %d of %d left", r.Remaining, r.Limit)
	}
	if r.Debt > 0 {
		fmt.Fprintf(&b, ", %d in debt", r.Debt)
	}
	switch {
	case !r.Allowed && r.RetryAfter > 0:
		fmt.Fprintf(&b, ", retry after %v", rounded(r.RetryAfter))
	case r.ResetAfter > 0:
		fmt.Fprintf(&b, ", full again in %v", rounded(r.ResetAfter))
	}
	return b.String()
}

// rounded rounds a positive d up, to three digits or whole seconds.
func rounded(d time.Duration) time.Duration {
	const digits, base = 1000, 10
	unit := time.Duration(1)
	for d/unit >= digits && unit < time.Second {
		unit *= base
	}
	if rest := d % unit; rest > 0 && d <= 1<<63-1-unit {
		d += unit - rest
	}
	return d
}
