package httplimit

import (
	"context"
	"sync"
	"time"
)

// A bounded is a context that ends at a time, as that of context.WithDeadline. It makes
// the timer when somebody waits for its end: a limiter that decides in memory, or whose
// circuit is open, does not, and context.WithDeadline costs more than all else here.
type bounded struct {
	context.Context // of the request
	at              time.Time

	mu     sync.Mutex
	timed  context.Context // nil until somebody waits
	cancel context.CancelFunc
}

func withTimeout(ctx context.Context, timeout time.Duration) *bounded {
	return &bounded{Context: ctx, at: time.Now().Add(timeout)}
}

// Deadline returns the earlier of the two.
func (b *bounded) Deadline() (time.Time, bool) {
	if at, ok := b.Context.Deadline(); ok && at.Before(b.at) {
		return at, true
	}
	return b.at, true
}

// Done makes the timer, the first time.
func (b *bounded) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timed == nil {
		b.timed, b.cancel = context.WithDeadline(b.Context, b.at)
	}
	return b.timed.Done()
}

// Err is not nil if and only if Done is closed: a deadline that has passed closes it as
// soon as it is made.
func (b *bounded) Err() error {
	switch current := b.current(); {
	case current != b.Context:
		return current.Err()
	case b.Context.Err() != nil:
		return b.Context.Err()
	case !time.Now().Before(b.at):
		return context.DeadlineExceeded
	}
	return nil
}

// Value finds the context of Done, too: by it package context knows how to derive
// others without a goroutine.
func (b *bounded) Value(key any) any { return b.current().Value(key) }

func (b *bounded) current() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timed != nil {
		return b.timed
	}
	return b.Context
}

// end stops the timer if there is one.
func (b *bounded) end() {
	b.mu.Lock()
	cancel := b.cancel
	b.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}
