package ahead

import (
	"testing"
	"time"
)

// A lease hands out what it has until its end, by the clock that stops while the machine is suspended and by
// the other one: its record is dated by that end.
func TestALeaseEndsByBothClocks(t *testing.T) {
	const lasts = time.Second / 2
	began := time.Now()
	for _, row := range []struct {
		age, wall time.Duration // since it began, by either clock
		permits   int64
		ok        bool
	}{
		{0, 0, 10, true},
		{0, 0, 11, false},
		{lasts - 1, lasts - 1, 10, true},
		{lasts, lasts, 1, false},
		{lasts + time.Millisecond, lasts + time.Millisecond, 1, false},
		{lasts - 1, lasts, 1, false},
		{lasts, 0, 1, false},
	} {
		s := &lease{size: 10, began: began, beganWall: began.UnixNano(), lasts: lasts}
		s.left.Store(s.size)
		left, ok := s.take(row.permits, row.age, began.Add(row.wall))
		if ok != row.ok || ok && left != s.size-row.permits {
			t.Errorf("%+v: %v, %d left", row, ok, left)
		}
	}
}

// After the end of a lease, released permits go to Redis, because the lease grants nothing more.
func TestAnEndedLeaseTakesNothingBack(t *testing.T) {
	for _, age := range []time.Duration{0, time.Second} {
		s := &lease{size: 10, began: time.Now().Add(-age), lasts: time.Second / 2}
		s.left.Store(4)
		if back := s.giveBack(7); (back == 6) != (age == 0) || age > 0 && back != 0 {
			t.Errorf("%v after it began: %d of 6 permits went back", age, back)
		}
	}
}
