// Package turns decides when the waiting callers of a limiter ask Redis (Schedule), and how many permits they
// leave to other processes and to Java (Portion). Both are values without a lock or a clock: the time is a
// parameter.
package turns

import (
	"time"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A Schedule says when Redis is asked for the waiters of a line.
type Schedule struct {
	probe probe
	dueAt time.Time // when to probe, for probeWhenDue
	// refusedUntil is the time until which Redis, by its own reply, can serve no waiter
	// in line. It is zero if something may have changed since. A caller whose timeout
	// passes before that gets a no, even if its last probe got no reply.
	refusedUntil time.Time
}

// A probe says when a batch includes the line.
type probe int

const (
	probeWhenDue  probe = iota // when the permits of the head are due
	probeNext                  // the next batch includes it
	probeUnderWay              // the batch under way includes it, and nothing has changed since
)

// IsNext reports whether the next batch includes the line.
func (s *Schedule) IsNext() bool { return s.probe == probeNext }

// Timed reports whether the next probe waits for DueAt.
func (s *Schedule) Timed() bool { return s.probe == probeWhenDue }

// DueAt returns when the permits of the head are due, by the last reply.
func (s *Schedule) DueAt() time.Time { return s.dueAt }

// RefusedUntil returns the time until which Redis can serve no waiter; zero if that is unknown.
func (s *Schedule) RefusedUntil() time.Time { return s.refusedUntil }

// NoteChange makes the next batch include the line, because something may have
// changed. The last reply about the line no longer holds.
func (s *Schedule) NoteChange() { s.probe, s.refusedUntil = probeNext, time.Time{} }

// NoteExpiry makes the next batch include the line, because the timeout of a
// waiter has passed. The last reply still holds.
func (s *Schedule) NoteExpiry() { s.probe = probeNext }

// NoteProbe records that a request asks for the line now.
func (s *Schedule) NoteProbe() { s.probe = probeUnderWay }

// NoteLeft records that the waiter named by the last reply has left.
func (s *Schedule) NoteLeft() { s.refusedUntil = time.Time{} }

// NoteRefusal schedules the next probe, about us microseconds after the refused request was sent. The probe
// takes about as long to reach Redis as that request did, so us would be exact. It is sent a little
// later, because a probe that arrives too early is refused and costs a round trip.
func (s *Schedule) NoteRefusal(us int64, sent, now time.Time) {
	wait, trip := wire.Microseconds(max(1, us)), now.Sub(sent)
	s.refusedUntil = sent.Add(wait)
	s.dueAt = s.refusedUntil.Add(min(trip, time.Millisecond+trip/8))
	if s.probe == probeUnderWay {
		s.probe = probeWhenDue
	}
}

// NoteTurn is NoteRefusal when Redis could serve some waiters, but another process has
// its turn until at.
func (s *Schedule) NoteTurn(at, sent, now time.Time) {
	s.NoteRefusal(at.Sub(sent).Microseconds(), sent, now)
	s.refusedUntil = time.Time{}
}
