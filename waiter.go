package rratelimiter

import (
	"context"
	"time"
)

// A waiter is one call of TryAcquire, Acquire, Allow or Release, from when it enters
// the queue until it is answered. Where it stands:
//
//	in         asked  left
//	&arrivals  false  false  no batch has taken it yet; &returns where it gives permits back
//	nil        true   false  a batch judges it
//	&line      false  false  refused, it waits
//	&line      true   false  it waits, and a batch judges it
//	any        any    true   its caller has gone; the batch that has asked for it finds out
//	nil        false  false  answered
type waiter struct {
	permits  int64
	gives    bool // it gives them back
	waits    bool // it has a timeout, and so stands in line when it is refused
	numbers  bool // it wants to know more than yes or no
	canLeave bool // it may end before Redis answers: it has a timeout, or its ctx can end
	bounded  bool // and it is known when, at the latest
	ctx      context.Context

	// Guarded by the queue's mu, as the list is.
	in         *list
	next, prev *waiter
	asked      bool
	left       bool
	refused    bool  // it stands in line, or has stood there
	lastLook   int64 // the batch that decides, as its timeout has passed; 0 while it has not

	// Set before it is answered.
	answer answer
	err    error

	answered chan struct{} // capacity one
	timer    *time.Timer   // for its timeout
}

// newWaiter returns a waiter, which may have been one before. Channel and
// timer are what would cost more than all the rest.
func (c *Client) newWaiter(ctx context.Context, permits int64, timeout time.Duration, gives, numbers bool) *waiter {
	w, ok := c.waiters.Get().(*waiter)
	if !ok {
		w = &waiter{answered: make(chan struct{}, 1)}
	}
	w.ctx, w.permits, w.waits, w.gives, w.numbers = ctx, permits, timeout > 0, gives, numbers
	timed := w.waits && timeout != forever
	w.canLeave = ctx.Done() != nil || timed
	if w.bounded = timed; !timed && w.canLeave {
		_, w.bounded = ctx.Deadline()
	}
	return w
}

// startTimer returns a channel that says when the timeout has passed.
func (w *waiter) startTimer(timeout time.Duration) <-chan time.Time {
	if w.timer == nil {
		w.timer = time.NewTimer(timeout)
	} else {
		w.timer.Reset(timeout)
	}
	return w.timer.C
}

// recycle takes back a waiter that was answered. One that has left is not: a
// batch may still know it.
func (c *Client) recycle(w *waiter) {
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.left || w.asked || w.in != nil {
		return
	}
	*w = waiter{answered: w.answered, timer: w.timer}
	c.waiters.Put(w)
}

// final reports whether a batch decides for a waiter.
func (w *waiter) final(batch int64) bool { return w.lastLook > 0 && w.lastLook <= batch }

// A list holds waiters, first come first served. One leaves from wherever it
// stands.
type list struct {
	first, last *waiter
	size        int
	expired     int // of the waiters in line, those whose timeout has passed
}

func (l *list) empty() bool { return l.first == nil }

func (l *list) push(w *waiter) {
	l.size++
	if w.lastLook > 0 {
		l.expired++
	}
	w.in, w.prev, w.next = l, l.last, nil
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
}

// end takes a waiter out of its list, with its answer.
func (w *waiter) end(a answer, err error) {
	w.remove()
	w.answer, w.err = a, err
}

// remove takes a waiter out of the list it is in, if any.
func (w *waiter) remove() {
	l := w.in
	if l == nil {
		return
	}
	l.size--
	if w.lastLook > 0 {
		l.expired--
	}
	if w.prev == nil {
		l.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.in, w.prev, w.next = nil, nil, nil
}
