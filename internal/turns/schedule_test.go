package turns

import (
	"testing"
	"time"
)

// A refused line is probed when its permits are due, as late as the request that said so, and at once when
// something may have changed.
func TestSchedule(t *testing.T) {
	type notes = []func(s *Schedule)
	sent := time.Now()
	const trip, wait = 4 * time.Millisecond, 20 * time.Millisecond
	refused := func(s *Schedule) {
		s.NoteProbe()
		s.NoteRefusal(wait.Microseconds(), sent, sent.Add(trip))
	}
	later := wait + 3*trip/8
	probe, change := (*Schedule).NoteProbe, (*Schedule).NoteChange
	soon := func(s *Schedule) { s.NoteRefusal(0, sent, sent) }
	turn := func(s *Schedule) { s.NoteTurn(sent.Add(wait), sent, sent) }
	for name, row := range map[string]struct {
		notes        []func(s *Schedule)
		next, timed  bool
		due, refused time.Duration // after sent; 0 for none
	}{
		"new":               {nil, false, true, 0, 0},
		"under way":         {notes{probe}, false, false, 0, 0},
		"refused":           {notes{refused}, false, true, later, wait},
		"due at once":       {notes{soon}, false, true, time.Microsecond, time.Microsecond},
		"changed":           {notes{refused, change}, true, false, later, 0},
		"expired":           {notes{refused, (*Schedule).NoteExpiry}, true, false, later, wait},
		"head has left":     {notes{refused, (*Schedule).NoteLeft}, false, true, later, 0},
		"another's turn":    {notes{turn}, false, true, wait, 0},
		"changed meanwhile": {notes{probe, change, turn}, true, false, wait, 0},
	} {
		var s Schedule
		for _, note := range row.notes {
			note(&s)
		}
		after := func(at time.Time) time.Duration {
			if at.IsZero() {
				return 0
			}
			return at.Sub(sent)
		}
		due, refused := after(s.DueAt()), after(s.RefusedUntil())
		if s.IsNext() != row.next || s.Timed() != row.timed || due != row.due || refused != row.refused {
			t.Errorf("%s: next %v, timed %v, due %v, refused until %v",
				name, s.IsNext(), s.Timed(), due, refused)
		}
	}
}
