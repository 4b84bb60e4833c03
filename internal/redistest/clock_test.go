package redistest_test

import (
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// The clock of a server goes where it is set, both ways, and only that of the server.
func TestTheClockOfAServer(t *testing.T) {
	s, set := redistest.StartClocked(t)
	for _, d := range []time.Duration{0, time.Hour, -time.Hour - 1500*time.Millisecond, 0} {
		set(d)
		before := time.Now()
		at := redistest.Must(s.Admin().Time(t.Context()).Result())(t)
		if off := at.Sub(before) - d; off < -time.Millisecond || off > time.Since(before)+time.Millisecond {
			t.Errorf("set to %v: the clock is off by %v", d, off)
		}
	}
}
