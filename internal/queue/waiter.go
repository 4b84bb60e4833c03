package queue

import (
	"context"
	"math"
	"time"

	"github.com/redisson-go/rratelimiter/internal/request"
)

// Forever is a timeout that never passes.
const Forever time.Duration = math.MaxInt64

// A Want holds the arguments of a call to a limiter.
type Want struct {
	Permits int64
	Timeout time.Duration // 0 or less: do not wait if refused
	Numbers bool          // the caller wants more than yes or no
	Budget  time.Duration // how long Redis may be silent before the caller leaves; 0 for ever
	Reserve bool          // of a Group: each member gets records that are settled later
	Lease   time.Duration // of a Group with Reserve: the records are dated that far ahead; 0 for none
	Release bool          // the call gives permits back
}

// Waits reports whether the caller stands in line when it is refused.
func (wanted *Want) Waits() bool { return wanted.Timeout > 0 }

// Timed reports whether the caller has a timeout.
func (wanted *Want) Timed() bool { return wanted.Waits() && wanted.Timeout != Forever }

// A waiterState says where a waiter is. The table has all states and the
// transitions between them:
//
//	state     list                   next
//	arrived   arrivals or releases   judged by a batch; inLine, to wait behind others; gone;
//	                                 answered, if the Pool is closed or the batch ahead hangs
//	judged    none                   answered, inLine, gone
//	inLine    line                   probed by a batch; gone; answered
//	probed    line                   answered, inLine again, gone
//	gone      none, or line          dropped by the batch that judges it, if any does
//	answered  none                   reused for another caller
//
// A waiter that is probed stays in line, because a refusal leaves it exactly
// where it was. A waiter that is gone is never reused: the batch that judges it
// still has a pointer to it.
type waiterState int

const (
	answered waiterState = iota // it has its result, or is new
	arrived                     // no batch has taken it yet
	judged                      // a batch judges it
	inLine                      // it waits, refused or behind others
	probed                      // it stands in line, and a batch judges it
	gone                        // its caller has left
)

// A waiter is one call of TryAcquire, Acquire, Allow or Release, from when it
// enters the queue until it is answered.
type waiter struct {
	Want
	caller

	// Guarded by the queue's mu, as links are.
	state waiterState
	links
	// finalBatch is the number of the batch that decides after the timeout has
	// passed; 0 before. A batch that was sent earlier may have reached Redis
	// before the permits were due, so its refusal is not final.
	finalBatch int64
	// inLineSince is when it first stood in line, if waits are measured. It
	// belongs to the caller once the waiter has left.
	inLineSince time.Time
	// replaced says that a request which judged the waiter first has replaced a rate.
	replaced bool
	// ticket marks the waiter as standing in for a caller of Places; nil for all
	// others.
	ticket *ticket

	// Written before ready is sent to, which orders these for the reader.
	outcome request.Result
	err     error

	ready chan struct{} // capacity one, so that a batch never blocks on a caller

	timers // reused with the waiter
}

// timers are those of a waiter; nil before they are needed.
type timers struct{ timeout, budget *time.Timer }

// A caller is what a waiter knows of the goroutine that waits.
type caller struct {
	ctx      context.Context
	canLeave bool // it may end before Redis replies: it has a timeout, or its ctx can end
	bounded  bool // its latest end is known
	// staysForReply says that the caller may carry out its request in its own
	// goroutine, because it cannot leave, or go-redis ends the request in time.
	staysForReply bool
	enteredAt     time.Time // when it came, if it has a budget or a timeout
	givenRate     any       // the text of a GivenRate, boxed; nil if its acquires set no rate
}

// links are the place of a waiter in a list.
type links struct {
	list       *waiterList
	next, prev *waiter
	rank       int64 // in line: waiters with a smaller rank are ahead
}

// start starts a timer, which it makes if there is none, and returns its channel.
func start(timer **time.Timer, d time.Duration) <-chan time.Time {
	if *timer == nil {
		*timer = time.NewTimer(d)
	} else {
		(*timer).Reset(d)
	}
	return (*timer).C
}

// expired reports whether the timeout has passed.
func (w *waiter) expired() bool { return w.finalBatch > 0 }

// isFinal reports whether a refusal by a batch is the last word for the waiter.
func (w *waiter) isFinal(batch int64) bool { return w.expired() && w.finalBatch <= batch }

// queued returns how long the waiter has waited for permits, 0 if that is not
// measured.
func (w *waiter) queued() time.Duration {
	if w.inLineSince.IsZero() {
		return 0
	}
	return time.Since(w.inLineSince)
}

// finish takes the waiter out of its list and sets its result. The caller of
// finish sends to ready.
func (w *waiter) finish(v request.Result, err error) {
	w.remove()
	v.Replaced = w.replaced
	if !w.inLineSince.IsZero() {
		v.Queued = w.queued()
	}
	w.state, w.outcome, w.err = answered, v, err
}

// remove takes the waiter out of its list, if it is in one.
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

// ofGroup reports whether the waiter stands in for a Group call, which no batch
// judges. It accepts a nil waiter, so that it can be asked of the head of an
// empty line.
func (w *waiter) ofGroup() bool { return w != nil && w.ticket != nil }

// A waiterList holds waiters in order. It is a linked list, because a caller may
// leave from any position, and the links are in the waiters, so that a call
// allocates nothing.
type waiterList struct {
	first, last *waiter
	size        int
	permits     int64 // the sum over all
	expired     int   // waiters whose timeout has passed
}

// all calls f for each waiter. f may remove the waiter that it gets.
func (ls *waiterList) all(f func(w *waiter)) {
	for w := ls.first; w != nil; {
		next := w.next
		f(w)
		w = next
	}
}

// insert puts w behind another waiter, or first if behind is nil.
func (ls *waiterList) insert(w, behind *waiter) {
	ls.size++
	ls.permits += w.Permits
	if w.expired() {
		ls.expired++
	}
	w.list, w.prev, w.next = ls, behind, ls.first
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

// A ticket marks a waiter as standing in for a Group call in the line of one member. The
// waiter's place is in the line only while that member refuses the caller. Otherwise
// later waiters overtake it: one user without permits must not keep all users from a
// shared limit. When the member refuses later, the place returns to where it was.
//
// A caller gets its places in all lines at one moment, under the locks of all queues. So
// of two callers the same one is ahead in every line they share, and they never deadlock.
type ticket struct {
	wake chan struct{} // capacity one: the caller's turn may have come
}
