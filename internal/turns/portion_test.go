package turns

import (
	"testing"
	"time"
)

// Permits that were granted count for an interval, however many requests got them.
func TestTakingsCountForAnInterval(t *testing.T) {
	const interval, seconds = 10 * time.Second, 60
	for _, perSecond := range []int{1, 20, 60, 300} {
		var p Portion
		now := time.Now()
		for range seconds * perSecond {
			now = now.Add(time.Second / time.Duration(perSecond))
			p.NoteRefusal(interval, 0, 0, false, now)
			p.noteGranted(1, 0, now)
			p.Text(1, false, now)
		}
		due := int64(interval/time.Second) * int64(perSecond)
		if p.takingsSum < due || p.takingsSum > due+due/16 || len(p.takings) > mostTakings+8 {
			t.Errorf("%d a second: %d permits in %d takings, want %d", perSecond, p.takingsSum,
				len(p.takings), due)
		}
	}
}

// Permits left to other processes are taken when no process has taken them for a while: longer for Java.
func TestLeftPermitsAreTakenLater(t *testing.T) {
	const interval = 2 * time.Second
	start := time.Now()
	for _, row := range []struct {
		forJava bool
		due     time.Duration // until the refused waiter's permits are there
		next    time.Duration // the next look
		paced   bool
	}{
		{false, time.Millisecond, 40 * time.Millisecond, false},
		{true, time.Millisecond, 110 * time.Millisecond, false},
		{false, time.Second, interval / 8, true}, // later than others would take them: a burst, then a pause
	} {
		var p Portion
		p.NoteRefusal(interval, 0, 0, row.forJava, start)
		p.NoteReply(1, 0, -1, start)
		p.NoteRefusal(interval, row.due, 5, row.forJava, start)
		if !p.Waits() || p.paced != row.paced || p.NextLook(start).Sub(start) != row.next {
			t.Errorf("%+v: waits %v, paced %v, next look after %v", row, p.Waits(), p.paced,
				p.NextLook(start).Sub(start))
		}
		if p.NoteRefusal(interval, row.due, 0, row.forJava, start); p.Waits() {
			t.Errorf("%+v: it waits although all are taken", row)
		}
	}
}
