package form

import (
	"testing"
	"time"
)

// Time stands still for a caller that others have passed while it waited for the lock. It
// goes back only with the clock of the caller.
func TestClockOfALateCaller(t *testing.T) {
	for _, tt := range []struct {
		set  func() time.Time
		want [3]int64
	}{
		{nil, [3]int64{5, 7, 7}},
		{time.Now, [3]int64{5, 7, 6}},
	} {
		c, last := clock{set: tt.set}, int64(0)
		for i, read := range []int64{5, 7, 6} {
			if got := c.settle(read, &last); got != tt.want[i] {
				t.Errorf("own clock %v, call %d: time %d, want %d", tt.set != nil, i, got, tt.want[i])
			}
		}
	}
}
