package httplimit

import (
	"context"
	"sync"
	"time"
)

// A bounded is the context of one question to the limiter: that of the request, bounded by
// a time. It differs from that of context.WithDeadline, which would cost more than all
// else here, in two things. It makes its timer when somebody waits for its end, which a
// limiter in memory does not. And it does not end with the context of the request, except
// at that one's deadline: to be told costs memory, and the bound is near.
//
// It ends once, with the bound or with end, and is not used again: a limiter may look at it
// for a moment after it has answered.
type bounded struct {
	request context.Context
	timeout time.Duration

	mu    sync.Mutex         // guards all that follows
	at    time.Time          // the bound, zero until the timeout begins
	err   error              // why it has ended
	done  chan struct{}      // nil until somebody waits, closed if err is not nil
	timer *time.Timer        // there with done, unless it had ended before
	heirs context.Context    // of which AfterFunc makes its calls, nil until there is one
	leave context.CancelFunc // ends heirs
}

// begin has the timeout begin now: the bound is when it has passed, or the deadline of the request. It is
// called with mu held.
func (b *bounded) begin() {
	b.at = time.Now().Add(b.timeout)
	if deadline, ok := b.request.Deadline(); ok && deadline.Before(b.at) {
		b.at = deadline
	}
}

// bound returns the bound. If restart has not been called, the timeout begins with the first look at b, so
// that rules can find out first what to ask. It is called with mu held.
func (b *bounded) bound() time.Time {
	if b.at.IsZero() {
		b.begin()
	}
	return b.at
}

// Deadline returns the bound.
func (b *bounded) Deadline() (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bound(), true
}

// restart has the timeout begin now, unless b has ended.
func (b *bounded) restart() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begin()
	if b.timer != nil && b.err == nil {
		b.timer.Reset(time.Until(b.at))
	}
}

// Value returns that of the request. So context.Cause says why the request has ended, if it
// has, whatever has ended b.
func (b *bounded) Value(key any) any { return b.request.Value(key) }

// Done makes the timer, the first time.
func (b *bounded) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done != nil {
		return b.done
	}
	left := time.Until(b.bound())
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

// Err is not nil if and only if Done is closed. Without a timer it looks at the clock.
func (b *bounded) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer == nil && b.err == nil && !time.Now().Before(b.bound()) {
		b.finish(context.DeadlineExceeded)
	}
	return b.err
}

// AfterFunc is how package context ends contexts that are derived from this one. Without it
// each would cost a goroutine.
func (b *bounded) AfterFunc(f func()) (stop func() bool) {
	b.Done() // whose timer ends them
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.heirs == nil {
		b.heirs, b.leave = context.WithCancel(context.Background())
		if b.err != nil {
			b.leave()
		}
	}
	return context.AfterFunc(b.heirs, f)
}

func (b *bounded) expire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finish(context.DeadlineExceeded)
}

// end stops the timer. Who waits yet is told that the question is over.
func (b *bounded) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finish(context.Canceled)
}

// finish ends b, once. It is called with mu held.
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
