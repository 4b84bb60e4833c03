package httplimit

import (
	"context"
	"sync"
	"time"
)

// A bounded is the context of one call of the limiter: that of the request, with a timeout. It differs
// in two ways from context.WithDeadline, which would cost more than the rest of the middleware. It
// makes its timer when Done is called, which a limiter in memory does not do. And it does not end when
// the context of the request is canceled: propagation costs memory, and the timeout is short.
//
// It ends once, by timeout or by end, and is not reused: a limiter may still look at it after it has
// returned.
type bounded struct {
	request context.Context
	timeout time.Duration

	mu      sync.Mutex         // guards all that follows
	at      time.Time          // when it times out, zero until the timeout begins
	err     error              // why it ended
	done    chan struct{}      // nil until Done is called, closed if err is not nil
	timer   *time.Timer        // made with done, unless b had ended before
	derived context.Context    // runs the calls of AfterFunc, nil until there is one
	leave   context.CancelFunc // ends derived
}

// begin starts the timeout, which a deadline of the request may shorten. b.mu is held.
func (b *bounded) begin() {
	b.at = time.Now().Add(b.timeout)
	if deadline, ok := b.request.Deadline(); ok && deadline.Before(b.at) {
		b.at = deadline
	}
}

// deadline returns when b times out. Unless restart has been called, the timeout begins here, so that
// rules can first find out what to ask. b.mu is held.
func (b *bounded) deadline() time.Time {
	if b.at.IsZero() {
		b.begin()
	}
	return b.at
}

// Deadline returns when b times out.
func (b *bounded) Deadline() (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.deadline(), true
}

// restart restarts the timeout, unless b has ended.
func (b *bounded) restart() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begin()
	if b.timer != nil && b.err == nil {
		b.timer.Reset(time.Until(b.at))
	}
}

// Value returns the value of the request. So context.Cause returns the cause of the request if that
// has ended, whatever ended b.
func (b *bounded) Value(key any) any { return b.request.Value(key) }

// Done makes the timer on its first call.
func (b *bounded) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done != nil {
		return b.done
	}
	left := time.Until(b.deadline())
	if left <= 0 {
		b.finish(context.DeadlineExceeded)
	}
	b.done = make(chan struct{})
	if b.err != nil {
		close(b.done)
	} else {
		b.timer = time.AfterFunc(left, b.expire)
	}
	return b.done
}

// Err is nil until Done is closed. Without a timer it compares the clock.
func (b *bounded) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer == nil && b.err == nil && !time.Now().Before(b.deadline()) {
		b.finish(context.DeadlineExceeded)
	}
	return b.err
}

// AfterFunc lets package context end the contexts that are derived from b. Without it each would cost
// a goroutine.
func (b *bounded) AfterFunc(f func()) (stop func() bool) {
	b.Done() // makes the timer that ends them
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.derived == nil {
		b.derived, b.leave = context.WithCancel(context.Background())
		if b.err != nil {
			b.leave()
		}
	}
	return context.AfterFunc(b.derived, f)
}

func (b *bounded) expire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finish(context.DeadlineExceeded)
}

// end stops the timer and cancels callers that are still waiting.
func (b *bounded) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finish(context.Canceled)
}

// finish ends b, once. b.mu is held.
func (b *bounded) finish(err error) {
	if b.err != nil {
		return
	}
	b.err = err
	if b.timer != nil {
		b.timer.Stop()
		close(b.done)
	}
	if b.leave != nil {
		b.leave()
	}
}
