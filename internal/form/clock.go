package form

import (
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// A clock has the time in µs. It is that of the machine unless an option says other.
// That one begins at 1970 and is never set back.
type clock struct {
	set   func() time.Time // nil: that of the machine
	start time.Time
	began int64
}

func newClock(opts []limit.Option) clock {
	start := time.Now()
	return clock{limit.SettingsOf(opts).Now, start, start.UnixMicro()}
}

// farthest is a time so near that the difference of two is an int64: that of the year 75,000.
const farthest = 1 << 61

// read returns the time. A caller reads it before it takes a lock, so that others wait for
// less, and so that a clock that panics leaves nothing locked.
func (c *clock) read() int64 {
	if c.set != nil {
		return max(-farthest, min(c.set().UnixMicro(), farthest))
	}
	return c.began + int64(time.Since(c.start)/time.Microsecond)
}

// settle returns the time for a caller that now has the lock. Others may have come first
// with a later one: then it is theirs, unless the clock is one that can be set back. last is
// guarded by the lock.
func (c *clock) settle(read int64, last *int64) int64 {
	if c.set == nil {
		*last = max(*last, read)
		return *last
	}
	return read
}
