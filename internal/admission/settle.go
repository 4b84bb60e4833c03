package admission

import (
	"context"
	"fmt"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// A Held is the reservation of one request while it runs.
type Held struct {
	Reservation *limit.Reservation // nil if the request needs no permits, or passed without
	Estimate    int64              // the permits that were asked for
	Several     bool               // several limits were asked, each for its own estimate
	Timeout     time.Duration      // of a settlement; 0 or less for none
	OnError     func(error)        // receives the errors of settlements; may be nil

	outer *Held // of the middleware around this one
}

// heldKey is the key of a Held in a context. place is the package that holds the reservation.
type heldKey struct{ place string }

// In returns a context in which Settle finds h and the reservations of middleware around it.
func (h *Held) In(ctx context.Context, place string) context.Context {
	if outer, ok := ctx.Value(heldKey{place}).(*Held); ok {
		h.outer = outer
	}
	return h.Alone(ctx, place)
}

// Alone returns a context in which Settle finds h and no other reservation.
func (h *Held) Alone(ctx context.Context, place string) context.Context {
	return context.WithValue(ctx, heldKey{place}, h)
}

// Settle settles all reservations in ctx and returns the first error. It goes on when ctx ends.
func Settle(ctx context.Context, place string, actual []int64) error {
	h, ok := ctx.Value(heldKey{place}).(*Held)
	if !ok {
		return limit.ErrNoReservation
	}
	var first error
	for ; h != nil; h = h.outer {
		if err := h.Settle(ctx, actual...); first == nil {
			first = err
		}
	}
	return first
}

// Finish settles what actual returns, unless that is negative, when a request has ended. After a panic no
// permits come back: the estimate counts, or actual if it is more, and of several limits their estimates.
func (h *Held) Finish(ctx context.Context, panicked bool, actual func() int64) {
	if h.Reservation == nil || panicked && h.Several {
		return
	}
	n := actual()
	if n >= 0 && panicked {
		n = max(n, h.Estimate)
	}
	if n >= 0 {
		_ = h.Settle(ctx, n) // OnError has the error
	}
}

// Settle settles the reservation, if there is one. It goes on when ctx ends, because permits were used
// whether or not the caller is still there.
func (h *Held) Settle(ctx context.Context, actual ...int64) error {
	if h.Reservation == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	if h.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.Timeout)
		defer cancel()
	}
	err := h.Reservation.Settle(ctx, actual...)
	if err == nil {
		return nil
	}
	what := "settling"
	if ctx.Err() != nil {
		what = fmt.Sprintf("settling: no answer within %v", h.Timeout)
	}
	if err = fmt.Errorf("%s: %w", what, err); h.OnError != nil {
		h.OnError(err)
	}
	return err
}
