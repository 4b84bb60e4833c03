package engine

import (
	"testing"
	"time"
)

// Permits that were granted count for an interval, however many requests got them.
func TestTakingsCountForAnInterval(t *testing.T) {
	const interval, seconds = 10 * time.Second, 60
	for _, perSecond := range []int{1, 20, 60, 300} {
		var p portion
		now := time.Now()
		for range seconds * perSecond {
			now = now.Add(time.Second / time.Duration(perSecond))
			p.noteRefusal(interval, 0, 0, now)
			p.noteGranted(1, 0, now)
			p.text(1, false, now)
		}
		due := int64(interval/time.Second) * int64(perSecond)
		if p.takingsSum < due || p.takingsSum > due+due/16 || len(p.takings) > mostTakings+8 {
			t.Errorf("%d a second: %d permits in %d takings, want %d", perSecond, p.takingsSum,
				len(p.takings), due)
		}
	}
}
