package rratelimiter

import (
	"context"
	"math"
	"time"
)

// forever is a timeout that does not pass.
const forever time.Duration = math.MaxInt64

// wait asks for permits until it gets them, timeout passes or ctx ends.
func (l *RateLimiter) wait(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
	if err := checkPermits(permits, 1); err != nil {
		return false, err
	}
	if err := l.usable(ctx); err != nil {
		return false, err
	}
	r := newRequest(permits)
	ok, err := l.look(ctx, r, timeout)
	if !ok {
		l.leave(r)
	}
	return ok, err
}

// look asks for the permits of a request again and again. Between two looks it
// sleeps until the permits are due, by the exact time the script has computed
// and never longer than an interval. When the timeout passes it looks once
// more; a timeout <= 0 leaves it at the first look.
func (l *RateLimiter) look(ctx context.Context, r *request, timeout time.Duration) (bool, error) {
	start := time.Now() // monotonic: a clock that is set meanwhile does not matter
	n, err := l.attempt(ctx, r, 0)
	if err != nil || n[0] == 0 || timeout <= 0 {
		return err == nil && n[0] == 0, err
	}
	timer := time.NewTimer(min(milliseconds(n[0]), timeout-time.Since(start)))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return false, ctx.Err()
		case <-l.client.ctx.Done():
			return false, ErrClosed
		}
		last := time.Since(start) >= timeout
		n, err := l.attempt(ctx, r, 0)
		if err != nil || n[0] == 0 || last {
			return err == nil && n[0] == 0, err
		}
		timer.Reset(min(milliseconds(n[0]), timeout-time.Since(start)))
	}
}
