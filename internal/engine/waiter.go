package engine

import (
	"context"
	"math"
	"time"
)

// Forever is a timeout that does not pass.
const Forever time.Duration = math.MaxInt64

// A Want is what a caller wants of a limiter.
type Want struct {
	Permits int64
	Timeout time.Duration // 0 or less: it does not wait where it is refused
	Numbers bool          // it wants to know more than yes or no
	Budget  time.Duration // how long Redis may be silent before the caller leaves; 0 for ever

	release   bool // it gives the permits back
	givenRate any  // the text of a GivenRate, boxed; nil where a rate must be set
}

// Waits reports whether the caller stands in line when it is refused.
func (wanted *Want) Waits() bool { return wanted.Timeout > 0 }

// Timed reports whether the caller has a timeout.
func (wanted *Want) Timed() bool { return wanted.Waits() && wanted.Timeout != Forever }

// A standing is where a waiter stands. These are all that there are, and how one
// follows another:
//
//	standing  list                 next
//	arrived   arrivals or returns  judged by a batch; inLine, where it has to wait for those who stand
//	                               there; gone; answered, where the Engine is closed or the batch ahead
//	                               of it has hung
//	judged    none                 answered, inLine, gone
//	inLine    line                 probed by a batch; gone, or answered
//	probed    line                 answered, inLine again, gone
//	gone      none, or line        dropped by the batch that judges it, if any does
//	answered  none                 it may be another caller's waiter then
type waiterState int

const (
	answered waiterState = iota // it has its result, or is new
	arrived                     // no batch has taken it yet
	judged                      // a batch judges it
	inLine                      // it was refused, or had to wait for others: it waits
	probed                      // it stands in line, and a batch judges it
	gone                        // its caller has left
)

// A waiter is one call of TryAcquire, Acquire, Allow or Release, from when it enters
// the queue until it is answered.
type waiter struct {
	Want
	ctx      context.Context
	canLeave bool // it may end before Redis replies: it has a timeout, or its ctx can end
	bounded  bool // and it is known when, at the latest

	// Guarded by the queue's mu, as the list is.
	state       waiterState
	list        *waiterList
	next, prev  *waiter
	rank        int64     // in line: those with a smaller one are ahead of it
	finalBatch  int64     // the number of the batch that decides, for the timeout has passed; 0 before
	enteredAt   time.Time // when it entered the queue, if it has a budget
	inLineSince time.Time // when it first stood in line, if somebody observes; the caller's once it has left
	ticket      *ticket   // where it is the place of a group's caller, otherwise nil

	// Set before it is ready.
	verdict Verdict
	err     error

	ready chan struct{} // capacity one
	timer *time.Timer   // for its timeout
}

// startTimer returns a channel that says when the timeout has passed; nil if it
// never does.
func (w *waiter) startTimer() <-chan time.Time {
	switch {
	case !w.Timed():
		return nil
	case w.timer == nil:
		w.timer = time.NewTimer(w.Timeout)
	default:
		w.timer.Reset(w.Timeout)
	}
	return w.timer.C
}

// expired reports whether the timeout has passed.
func (w *waiter) expired() bool { return w.finalBatch > 0 }

// final reports whether a batch decides for the waiter.
func (w *waiter) isFinal(batch int64) bool { return w.expired() && w.finalBatch <= batch }

// taken notes that a batch judges the waiter.
func (w *waiter) noteTaken() {
	if w.state == inLine {
		w.state = probed
	} else {
		w.remove()
		w.state = judged
	}
}

// queued returns how long the waiter has waited for permits, as far as it was observed.
func (w *waiter) queued() time.Duration {
	if w.inLineSince.IsZero() {
		return 0
	}
	return time.Since(w.inLineSince)
}

// finish takes the waiter out of its list, with its result.
func (w *waiter) finish(v Verdict, err error) {
	w.remove()
	v.Queued = w.queued()
	w.state, w.verdict, w.err = answered, v, err
}

// remove takes the waiter out of the list it is in, if any.
func (w *waiter) remove() {
	ls := w.list
	if ls == nil {
		return
	}
	ls.size--
	ls.permits -= w.Permits
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
	w.list, w.prev, w.next = nil, nil, nil
}

// ofGroup reports whether a waiter is the place of a group's caller: no batch judges it.
// A nil waiter is none.
func (w *waiter) ofGroup() bool { return w != nil && w.ticket != nil }
