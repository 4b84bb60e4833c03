package engine

import (
	"time"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A schedule says when Redis is asked for the waiters of a line. Guarded by the
// queue's mu.
type schedule struct {
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

// noteChange makes the next batch include the line, because something may have
// changed. The last reply about the line no longer holds.
func (s *schedule) noteChange() { s.probe, s.refusedUntil = probeNext, time.Time{} }

// noteExpiry makes the next batch include the line, because the timeout of a
// waiter has passed. The last reply still holds.
func (s *schedule) noteExpiry() { s.probe = probeNext }

// noteProbe records that a request asks for the line now.
func (s *schedule) noteProbe() { s.probe = probeUnderWay }

// noteRefusal schedules the next probe us microseconds after sent, the time of
// the request whose reply named them. The next request takes about as long to
// reach Redis as that one did, so sending it us microseconds later would be
// exact. It is sent a little later still: a probe that arrives too early is
// refused and costs a round trip.
func (s *schedule) noteRefusal(us int64, sent time.Time) {
	wait, trip := wire.Microseconds(max(1, us)), time.Since(sent)
	s.refusedUntil = sent.Add(wait)
	s.dueAt = s.refusedUntil.Add(min(trip, time.Millisecond+trip/8))
	if s.probe == probeUnderWay {
		s.probe = probeWhenDue
	}
}

// noteTurn is noteRefusal when Redis could serve some waiters, but another process has
// its turn until at.
func (s *schedule) noteTurn(at, sent time.Time) {
	s.noteRefusal(at.Sub(sent).Microseconds(), sent)
	s.refusedUntil = time.Time{}
}
