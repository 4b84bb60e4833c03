package main

import (
	"context"
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
	at    time.Duration // since the start; later if the step before takes longer
	asked string        // the call, as one would write it
	do    func(ctx context.Context, l *rratelimiter.RateLimiter) (answer, error)
}

// An answer is what came of a step.
type answer struct {
	text    string
	yes     bool
	permits int64 // that were taken; given back: below 0
	left    int64 // as the answer told it, or unknown
}

const unknown = -1

const ms = time.Millisecond

// scene is what the callers do. The first second has one of each kind: permits
// taken, refused, given back, waited for, and waited for in vain. The steps keep
// their distance, so that a slow machine tells the same story. It matters most
// before a Release, which gives back out of the newest grants: those are to be
// its own caller's.
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

// acquire waits up to timeout for permits.
func acquire(at time.Duration, permits int64, timeout time.Duration) step {
	asked := fmt.Sprintf("TryAcquire(%d, %v)", permits, timeout)
	return step{at, asked, func(ctx context.Context, l *rratelimiter.RateLimiter) (answer, error) {
		start := time.Now()
		ok, err := l.TryAcquire(ctx, permits, timeout)
		if !ok {
			return answer{text: "no" + after(time.Since(start)), left: unknown}, err
		}
		return answer{"yes" + after(time.Since(start)), true, permits, unknown}, err
	}}
}

// after says how long somebody has waited, if it can be called waiting.
func after(d time.Duration) string {
	if d < 10*ms {
		return ""
	}
	return fmt.Sprintf(", after %d ms", d.Milliseconds())
}

// allow takes permits that are there, and tells when they are not.
func allow(at time.Duration, permits int64) step {
	asked := fmt.Sprintf("Allow(%d)", permits)
	return step{at, asked, func(ctx context.Context, l *rratelimiter.RateLimiter) (answer, error) {
		r, err := l.Allow(ctx, permits)
		if !r.Allowed {
			return answer{text: fmt.Sprintf("no, retry after %d ms", r.RetryAfter.Milliseconds()), left: r.Remaining}, err
		}
		return answer{"yes", true, permits, r.Remaining}, err
	}}
}

// release gives back permits that were taken in the step before.
func release(at time.Duration, permits int64) step {
	asked := fmt.Sprintf("Release(%d)", permits)
	return step{at, asked, func(ctx context.Context, l *rratelimiter.RateLimiter) (answer, error) {
		return answer{"given back", true, -permits, unknown}, l.Release(ctx, permits)
	}}
}
