package wire

import (
	"math"
	"time"
)

// Milliseconds is n ms, or the longest Duration where that is too much for one.
func Milliseconds(n int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(max(-most, min(most, n))) * time.Millisecond
}

// Microseconds is n us, or the longest Duration where that is too much for one.
func Microseconds(n int64) time.Duration {
	return time.Duration(min(n, math.MaxInt64/int64(time.Microsecond))) * time.Microsecond
}
