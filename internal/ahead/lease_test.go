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

// A lease takes permits back until it is settled, also when its time is over: Redis would not find them.
func TestALeaseTakesPermitsBackUntilItIsSettled(t *testing.T) {
	for _, settled := range []bool{false, true} {
		s := &lease{size: 10, began: time.Now().Add(-time.Second), lasts: time.Second / 2}
		s.left.Store(4)
		want := int64(6)
		if settled {
			s.close()
			want = 0
		}
		if back := s.giveBack(7); back != want {
			t.Errorf("settled is %v: %d of 6 permits went back", settled, back)
		}
	}
}
