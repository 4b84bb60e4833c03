package engine

import (
	"time"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A line holds the refused callers of one limiter that still have time, and the
// state that decides when Redis is asked for them. Guarded by the queue's mu.
type line struct {
	waiterList
	lastRank int64 // the rank given out last
	// groupPlaces counts the places that callers of Groups have reserved, in line
	// or out of it. They keep the queue alive, because a place may return to the
	// line.
	groupPlaces  int
	recordsWaits bool // record when a waiter first stands here

	attended bool          // a goroutine probes the line when it is due
	wake     chan struct{} // to that goroutine, capacity one: look again

	probe probe     // when the line is probed
	dueAt time.Time // when to probe, for probeWhenDue
	// refusedUntil is until when Redis can serve no waiter in line, by its own
	// reply. It is zero if something may have changed since. A caller whose
	// timeout passes before that gets a no, even if its last probe got no reply.
	refusedUntil time.Time
	// yieldsToJava says that it is Java's turn (turns.go). Waiters stay in line,
	// unless their timeout passes.
	yieldsToJava bool
}

// A probe says when a batch includes the line.
type probe int

const (
	probeWhenDue  probe = iota // when the permits of the head are due
	probeNext                  // the next batch includes it
	probeUnderWay              // the batch under way includes it, and nothing has changed since
)

// reset drops the schedule, for another limiter.
func (ln *line) reset() { ln.probe, ln.dueAt, ln.refusedUntil = probeWhenDue, time.Time{}, time.Time{} }

// stand puts a waiter at the end.
func (ln *line) stand(w *waiter) {
	w.remove()
	w.state = inLine
	ln.lastRank++
	w.rank = ln.lastRank
	if ln.recordsWaits && w.inLineSince.IsZero() {
		w.inLineSince = time.Now()
	}
	ln.push(w)
}

// insertPlace puts the place of a Group's caller where its rank belongs: ahead of
// all waiters that came later. It searches from the end, because a place mostly
// returns soon.
func (ln *line) insertPlace(w *waiter) {
	behind := ln.last
	for behind != nil && behind.rank > w.rank {
		behind = behind.prev
	}
	w.state = inLine
	ln.insert(w, behind)
}

// takeOut takes a place out of the line, and reports whether it was the first.
func (ln *line) takeOut(w *waiter) (first bool) {
	first = w.list != nil && ln.first == w
	w.remove()
	return first
}

// blocksOthers reports whether a waiter is the head and the next one wants less.
// If the head leaves, the next one may be served at once.
func (ln *line) blocksOthers(w *waiter) bool {
	return w == ln.first && (w.next == nil || w.next.ofGroup() || w.next.Permits < w.Permits)
}

// scheduleProbe makes the next batch include the line, because something may have
// changed. The last reply about the line no longer holds.
func (ln *line) scheduleProbe() { ln.probe, ln.refusedUntil = probeNext, time.Time{} }

// probes reports whether the next batch includes the line.
func (ln *line) probes() bool {
	return ln.probe == probeNext && !ln.empty() && !ln.first.ofGroup() &&
		(!ln.yieldsToJava || ln.expired > 0)
}

// dueAfter schedules the next probe us microseconds after sent, the time of the
// request whose reply named them. The next request takes about as long to reach
// Redis as that one did, so sending it us microseconds later would be exact. It
// is sent a little later still: a probe that arrives too early is refused and
// costs a round trip.
func (ln *line) dueAfter(us int64, sent time.Time) {
	wait, trip := wire.Microseconds(max(1, us)), time.Since(sent)
	ln.refusedUntil = sent.Add(wait)
	ln.dueAt = ln.refusedUntil.Add(min(trip, time.Millisecond+trip/8))
	switch {
	case ln.expired > 0:
		ln.probe = probeNext
	case ln.probe == probeUnderWay:
		ln.probe = probeWhenDue
	}
}

// notify wakes the goroutine that probes the line. It also wakes the Group's
// caller at the head, whose turn may have come.
func (ln *line) notify() {
	if ln.attended {
		wake(ln.wake)
	}
	if ln.first.ofGroup() && ln.probe == probeNext {
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

// refuseExpired answers the expired waiters behind a Group's caller that was
// refused. A waiter in a batch is left to the batch, which would answer it a
// second time.
func (ln *line) refuseExpired() {
	ln.all(func(w *waiter) {
		if w.state == inLine && w.expired() {
			w.finish(Verdict{}, nil)
			w.ready <- struct{}{}
		}
	})
}
