package engine

import (
	"time"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A line holds the refused callers of one limiter that still have time, and the state that
// decides when Redis is asked for them. Guarded by the queue's mu.
type line struct {
	waiterList
	lastRank     int64 // counts those who have stood in line
	groupPlaces  int   // group's callers who have a place, also where they let others pass
	recordsWaits bool  // record when a waiter first stands here

	attended bool          // a goroutine probes the line when it is due
	wake     chan struct{} // to that goroutine; capacity one: the line, or when it is due, has changed

	probe        probe     // when the line is probed
	dueAt        time.Time // the time, for probeWhenDue
	refusedUntil time.Time // until then Redis can serve nobody in line; zero if that may have changed
	yieldsToJava bool      // it is Java's turn (turns.go): those in line wait, unless their timeout passes
}

// A probe is when a batch includes the line.
type probe int

const (
	probeWhenDue  probe = iota // when the permits of the head are due
	probeNext                  // the next batch includes it
	probeUnderWay              // the batch under way does, and nothing has changed since
)

// forget forgets when the line is due, for another limiter.
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

// hold puts the place of a group's caller where it was before.
func (ln *line) insertPlace(w *waiter) {
	behind := ln.last
	for behind != nil && behind.rank > w.rank {
		behind = behind.prev
	}
	w.state = inLine
	ln.insert(w, behind)
}

// pass takes a place out, and reports whether it was the first.
func (ln *line) takeOut(w *waiter) (first bool) {
	first = w.list != nil && ln.first == w
	w.remove()
	return first
}

// heads reports whether a waiter is the head, and those behind it want less: they may
// be served at once when it has left.
func (ln *line) blocksOthers(w *waiter) bool {
	return w == ln.first && (w.next == nil || w.next.ofGroup() || w.next.Permits < w.Permits)
}

// changed schedules a probe, as something may have changed: what Redis has said of
// the line does not hold any more.
func (ln *line) scheduleProbe() { ln.probe, ln.refusedUntil = probeNext, time.Time{} }

// probes reports whether the next batch includes the line.
func (ln *line) probes() bool {
	return ln.probe == probeNext && !ln.empty() && !ln.first.ofGroup() &&
		(!ln.yieldsToJava || ln.expired > 0)
}

// dueAfter schedules the next probe us microseconds after a request was sent, as Redis has
// said. The next request takes as long to Redis as that one did, so it is sent as
// long after it, and a little later: one that comes too early is refused, and costs
// a round trip.
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

// remind wakes the goroutine that probes the line, and tells the group's caller at its head
// that it may be its turn.
func (ln *line) notify() {
	if ln.attended {
		wake(ln.wake)
	}
	if ln.first.ofGroup() && ln.probe == probeNext {
		wake(ln.first.ticket.wake)
	}
}

// poke wakes the reader of a channel with capacity one, if it is not about to wake anyway.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// refuseExpired answers those whose timeout has passed, behind a group's caller that
// was refused. One that a batch probes is the batch's to answer.
func (ln *line) refuseExpired() {
	ln.all(func(w *waiter) {
		if w.state == inLine && w.expired() {
			w.finish(Verdict{}, nil)
			w.ready <- struct{}{}
		}
	})
}
