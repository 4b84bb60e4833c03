package form

import (
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// A clock tells the time in µs since 1970. The default is the monotonic clock of the machine, which is
// never set back.
type clock struct {
	set   func() time.Time // by limit.WithClock; nil is the default
	start time.Time
	began int64
}

func newClock(opts []limit.Option) clock {
	start := time.Now()
	return clock{limit.SettingsOf(opts).Now, start, start.UnixMicro()}
}

// farthest bounds times, to the year 75,000, so that the difference of two fits in an int64.
const farthest = 1 << 61

// read returns the time. Callers read it before they take a lock: the lock is held for a shorter
// time, and a clock that panics leaves nothing locked.
func (c *clock) read() int64 {
	if c.set != nil {
		return max(-farthest, min(c.set().UnixMicro(), farthest))
	}
	return c.began + int64(time.Since(c.start)/time.Microsecond)
}

// settle returns the time for a caller that now holds the lock, which guards last. A caller with a later
// time may have had the lock before: then the later time counts, unless the clock can be set back.
func (c *clock) settle(read int64, last *int64) int64 {
	if c.set == nil {
		*last = max(*last, read)
		return *last
	}
	return read
}
