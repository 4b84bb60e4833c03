package rratelimiter

import (
	"context"
	"time"
)

// A want is what a caller wants of a limiter.
type want struct {
	permits int64
	timeout time.Duration // 0 or less: it does not wait where it is refused
	gives   bool          // it gives the permits back
	numbers bool          // it wants to know more than yes or no
	set     any           // the text of a givenRate, boxed; nil where a rate must be set
	budget  time.Duration // how long Redis may be silent before the caller leaves; 0 for ever
}

// waits reports whether the caller stands in line when it is refused.
func (wanted want) waits() bool { return wanted.timeout > 0 }

// A standing is where a waiter stands. These are all that there are, and how one
// follows another:
//
//	standing  list                 next
//	arrived   arrivals or returns  judged by a batch; inLine, where it has to wait for those who stand
//	                               there; gone; answered, where the Client is closed or the batch ahead
//	                               of it has hung
//	judged    none                 answered, inLine, gone
//	inLine    line                 probed by a batch; gone, or answered
//	probed    line                 answered, inLine again, gone
//	gone      none, or line        dropped by the batch that judges it, if any does
//	answered  none                 it may be another caller's waiter then
type standing int

const (
	answered standing = iota // it has its result, or is new
	arrived                  // no batch has taken it yet
	judged                   // a batch judges it
	inLine                   // it was refused, or had to wait for others: it waits
	probed                   // it stands in line, and a batch judges it
	gone                     // its caller has left
)

// A waiter is one call of TryAcquire, Acquire, Allow or Release, from when it enters
// the queue until it is answered.
type waiter struct {
	want
	ctx      context.Context
	canLeave bool // it may end before Redis replies: it has a timeout, or its ctx can end
	bounded  bool // and it is known when, at the latest

	// Guarded by the queue's mu, as the list is.
	standing   standing
	in         *waiterList
	next, prev *waiter
	place      int64     // in line: those with a smaller one are ahead of it
	lastBatch  int64     // the number of the batch that decides, for the timeout has passed; 0 before
	came       time.Time // when it entered the queue, if it has a budget
	stood      time.Time // when it first stood in line, if somebody observes; the caller's once it has left
	ticket     *ticket   // where it is the place of a group's caller, otherwise nil

	// Set before it is ready.
	verdict verdict
	err     error

	ready chan struct{} // capacity one
	timer *time.Timer   // for its timeout
}

// newWaiter returns a waiter, which may have been another caller's. Channel and
// timer are what would cost more than all the rest.
func (c *Client) newWaiter(ctx context.Context, wanted want) *waiter {
	w, ok := c.waiters.Get().(*waiter)
	if !ok {
		w = &waiter{ready: make(chan struct{}, 1)}
	}
	w.ctx, w.want = ctx, wanted
	timed := w.waits() && w.timeout != forever
	w.canLeave = ctx.Done() != nil || timed || w.budget > 0
	if w.bounded = timed || w.budget > 0; !w.bounded && w.canLeave {
		_, w.bounded = ctx.Deadline()
	}
	if w.budget > 0 {
		w.came = time.Now()
	}
	return w
}

// startTimer returns a channel that says when the timeout has passed; nil if it
// never does.
func (w *waiter) startTimer() <-chan time.Time {
	switch {
	case !w.waits() || w.timeout == forever:
		return nil
	case w.timer == nil:
		w.timer = time.NewTimer(w.timeout)
	default:
		w.timer.Reset(w.timeout)
	}
	return w.timer.C
}

// recycle takes back a waiter that was answered. One that has left is not: a
// batch may still know it.
func (c *Client) recycle(w *waiter) {
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.standing != answered {
		return
	}
	*w = waiter{ready: w.ready, timer: w.timer}
	c.waiters.Put(w)
}

// expired reports whether the timeout has passed.
func (w *waiter) expired() bool { return w.lastBatch > 0 }

// final reports whether a batch decides for the waiter.
func (w *waiter) final(batch int64) bool { return w.expired() && w.lastBatch <= batch }

// taken notes that a batch judges the waiter.
func (w *waiter) taken() {
	if w.standing == inLine {
		w.standing = probed
	} else {
		w.remove()
		w.standing = judged
	}
}

// queued returns how long the waiter has waited for permits, as far as it was observed.
func (w *waiter) queued() time.Duration {
	if w.stood.IsZero() {
		return 0
	}
	return time.Since(w.stood)
}

// finish takes the waiter out of its list, with its result.
func (w *waiter) finish(v verdict, err error) {
	w.remove()
	v.queued = w.queued()
	w.standing, w.verdict, w.err = answered, v, err
}

// A waiterList holds waiters, first come first served. One leaves from wherever it
// stands.
type waiterList struct {
	first, last *waiter
	size        int
	permits     int64 // of all
	expired     int   // those whose timeout has passed
}

func (ls *waiterList) empty() bool { return ls.first == nil }

// all calls f for each waiter, which f may take out.
func (ls *waiterList) all(f func(w *waiter)) {
	for w := ls.first; w != nil; {
		next := w.next
		f(w)
		w = next
	}
}

func (ls *waiterList) push(w *waiter) { ls.insert(w, ls.last) }

// insert puts w behind another one, which is nil for the first place.
func (ls *waiterList) insert(w, behind *waiter) {
	ls.size++
	ls.permits += w.permits
	if w.expired() {
		ls.expired++
	}
	w.in, w.prev, w.next = ls, behind, ls.first
	if behind != nil {
		w.next = behind.next
		behind.next = w
	} else {
		ls.first = w
	}
	if w.next != nil {
		w.next.prev = w
	} else {
		ls.last = w
	}
}

// remove takes the waiter out of the list it is in, if any.
func (w *waiter) remove() {
	ls := w.in
	if ls == nil {
		return
	}
	ls.size--
	ls.permits -= w.permits
	if w.expired() {
		ls.expired--
	}
	if w.prev == nil {
		ls.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		ls.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.in, w.prev, w.next = nil, nil, nil
}
