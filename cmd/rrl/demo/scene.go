package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redisson-go/rratelimiter"
)

// A caller is one goroutine of the demo: a name and what it does in turn.
type caller struct {
	name  string
	steps []step
}

// A step is one call of the limiter.
type step struct {
	at   time.Duration // since the start; later if the step before takes longer
	call string        // as it is printed
	do   func(ctx context.Context, l *rratelimiter.RateLimiter) (outcome, error)
}

// An outcome is the result of a step.
type outcome struct {
	text    string
	yes     bool
	permits int64 // taken, or below 0 if given back
	left    int64 // unknown if the call does not return it
}

const (
	unknown = -1

	ms = time.Millisecond

	// noticeable is how long a call must take to be shown as one that waited. Redis replies in a
	// fraction of it.
	noticeable = 10 * ms
)

// scene returns the callers and what they do. The first second shows each kind of outcome: permits are
// taken, refused, given back, waited for, and waited for in vain. The steps are at least 100 ms apart, so
// that they come in the same order on a slow machine. This matters most before a Release, which takes
// permits out of the newest grants: those should belong to the same caller.
func scene() []caller {
	return []caller{
		{"web", []step{
			acquire(0, 1, 500*ms),
			acquire(600*ms, 1, 500*ms),
			acquire(800*ms, 1, 500*ms),
			acquire(1800*ms, 1, 500*ms),
			acquire(2300*ms, 1, 500*ms),
			acquire(3300*ms, 1, 500*ms),
			acquire(3850*ms, 1, 500*ms),
		}},
		{"mail", []step{
			acquire(100*ms, 1, 200*ms),
			acquire(700*ms, 1, 200*ms),
			acquire(1150*ms, 1, 200*ms),
			acquire(2050*ms, 1, 200*ms),
			acquire(3200*ms, 1, 200*ms),
			acquire(3950*ms, 1, 200*ms),
		}},
		{"report", []step{
			acquire(200*ms, 3, 2*time.Second),
			release(400*ms, 2),
			acquire(1300*ms, 3, 2*time.Second),
			acquire(3400*ms, 2, 2*time.Second),
		}},
		{"search", []step{
			allow(300*ms, 1),
			allow(500*ms, 1),
			allow(1700*ms, 1),
			allow(2700*ms, 1),
			allow(3650*ms, 1),
			allow(3750*ms, 1),
		}},
	}
}

// acquire is a step that waits up to timeout for permits. A reply that comes too late ends the call,
// not the demo: the library gives back what it may have taken. If Redis is away, the next call fails.
func acquire(at time.Duration, permits int64, timeout time.Duration) step {
	call := fmt.Sprintf("TryAcquire(%d, %v)", permits, timeout)
	return step{at, call, func(ctx context.Context, l *rratelimiter.RateLimiter) (outcome, error) {
		start := time.Now()
		ok, err := l.TryAcquire(ctx, permits, timeout)
		if errors.Is(err, rratelimiter.ErrNoAnswer) {
			return outcome{text: "no reply" + after(time.Since(start)), left: unknown}, nil
		}
		if !ok {
			return outcome{text: "no" + after(time.Since(start)), left: unknown}, err
		}
		return outcome{"yes" + after(time.Since(start)), true, permits, unknown}, err
	}}
}

// after says how long a caller waited; it is empty for a wait that is not noticeable.
func after(d time.Duration) string {
	if d < noticeable {
		return ""
	}
	return fmt.Sprintf(", after %d ms", d.Milliseconds())
}

// allow is a step that takes permits without waiting. A refusal says when to try again.
func allow(at time.Duration, permits int64) step {
	call := fmt.Sprintf("Allow(%d)", permits)
	return step{at, call, func(ctx context.Context, l *rratelimiter.RateLimiter) (outcome, error) {
		r, err := l.Allow(ctx, permits)
		if !r.Allowed {
			text := fmt.Sprintf("no, retry after %d ms", r.RetryAfter.Milliseconds())
			return outcome{text: text, left: r.Remaining}, err
		}
		return outcome{"yes", true, permits, r.Remaining}, err
	}}
}

// release is a step that gives back permits of the step before.
func release(at time.Duration, permits int64) step {
	call := fmt.Sprintf("Release(%d)", permits)
	return step{at, call, func(ctx context.Context, l *rratelimiter.RateLimiter) (outcome, error) {
		return outcome{"given back", true, -permits, unknown}, l.Release(ctx, permits)
	}}
}
