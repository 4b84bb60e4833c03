package redisx

import (
	"context"
	"sync/atomic"
	"time"
)

// Leave returns the outcome of call, which asks Redis. If ctx or closing ends
// first, it returns left, and late gets the outcome, unless it is nil: what Redis
// has granted to a caller that has left must be given back. go-redis may go on
// after the end of a context, because it reads a reply to its end.
//
// start runs call in a goroutine, and passes it a context that ends with closing.
// It reports whether it does; if not, the caller has left. A caller whose context
// does not end needs no goroutine: it calls Redis itself.
func Leave[T any](ctx, closing context.Context, start func(func(closing context.Context)) bool,
	call func(closing context.Context) T, late func(T)) (outcome T, left bool) {
	if ctx.Done() == nil {
		return call(closing), false
	}
	var settled atomic.Bool // the caller has the outcome, or has left: whoever sets it decides which
	done := make(chan T, 1)
	if !start(func(closing context.Context) {
		v := call(closing)
		if settled.CompareAndSwap(false, true) {
			done <- v
		} else if late != nil {
			late(v)
		}
	}) {
		return outcome, true
	}
	select {
	case outcome = <-done:
		return outcome, false
	case <-ctx.Done():
	case <-closing.Done():
	}
	// Prefer an outcome that came at the same moment: it is the truth about what was
	// carried out.
	if settled.CompareAndSwap(false, true) {
		return outcome, true
	}
	return <-done, false
}

// Go starts a goroutine for a Leave that belongs to no Client.
func Go(f func(closing context.Context)) bool {
	go f(context.Background())
	return true
}

// Undated is a context without its deadline. Its end stops waiting for a
// connection, but not for the reply to a request that was sent: without the reply,
// permits that it took could not be given back.
type Undated struct{ context.Context }

// Deadline returns none.
func (Undated) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }
