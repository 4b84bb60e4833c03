package queue

import (
	"time"

	"github.com/redisson-go/rratelimiter/internal/turns"
)

// A line holds the refused callers of one limiter that still have time, and the
// state that decides when Redis is asked for them. Guarded by the queue's mu.
type line struct {
	waiterList
	lastRank int64 // the rank given out last
	// places counts those that callers of Places have reserved, in line
	// or out of it. They keep the queue alive, because a place may return to the
	// line.
	places       int
	recordsWaits bool // record when a waiter first stands here

	attended bool          // a goroutine probes the line when it is due
	wake     chan struct{} // to that goroutine, capacity one: look again

	schedule turns.Schedule
	portion  *turns.Portion // the share of this process among others; nil until a waiter is refused
}

// stand puts a waiter at the end.
func (ln *line) stand(w *waiter) {
	w.remove()
	w.state = inLine
	ln.lastRank++
	w.rank = ln.lastRank
	if ln.recordsWaits && w.inLineSince.IsZero() {
		w.inLineSince = time.Now()
	}
	ln.insert(w, ln.last)
}

// blocksOthers reports whether a waiter is the head and the next wants fewer permits: if
// the head leaves, the next may be served at once.
func (ln *line) blocksOthers(w *waiter) bool {
	return w == ln.first && (w.next == nil || w.next.ofGroup() || w.next.Permits < w.Permits)
}

// probes reports whether the next batch includes the line.
func (ln *line) probes() bool {
	return ln.size > 0 && ln.schedule.IsNext() && !ln.first.ofGroup()
}

// notify wakes the goroutine that probes the line (attended). It also wakes the Group's
// caller at the head, whose turn may have come.
func (ln *line) notify() {
	wake(ln.wake)
	if ln.first.ofGroup() && ln.schedule.IsNext() {
		wake(ln.first.ticket.wake)
	}
}

// wake wakes the reader of a channel with capacity one. If a value is waiting
// there, the reader will look anyway.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
