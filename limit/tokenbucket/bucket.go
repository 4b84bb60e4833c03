package tokenbucket

import (
	"math"

	"github.com/redisson-go/rratelimiter/internal/form"
)

// A bucket is the rule. Lua and Go have the same float64 operations in the same order. Each result has a
// name or a conversion of its own, so that the compiler fuses none.
type bucket struct {
	capacity, perSecond float64
	slack               float64 // µs, see newBucket
}

// newBucket returns the rule of a bucket. The tokens, and the time until more come, have an error of some
// parts in 2^53 of the time in which the bucket fills. slack covers it, so that no wait is too short. It
// has half a nanosecond less: in a bucket that fills within three days, a wait of whole microseconds
// then stays one.
func newBucket(capacity, perSecond float64) *bucket {
	fill := capacity / perSecond
	part := fill * 1e6 / (1 << 49)
	return &bucket{capacity, perSecond, part - 0.0005}
}

// A state is the tokens at a time in µs. Its zero value is a full bucket.
type state struct {
	tokens float64
	last   int64
	used   bool
}

// take decides as take.lua does.
func (b *bucket) take(s *state, now, n int64) form.Decision {
	tokens := b.at(s, now)
	if !b.enough(tokens + b.capacity) { // the clock was set far back: start over, empty
		tokens = 0
		*s = state{0, now, true}
	}
	if rest := tokens - float64(n); b.enough(rest) {
		*s = state{min(rest, b.capacity), now, true}
		d := form.Decision{
			Allowed: true, Remaining: int64(s.tokens),
			Reset: b.wait(b.capacity - s.tokens),
		}
		if s.tokens == b.capacity {
			*s = state{}
		}
		return d
	}
	return form.Decision{
		Remaining: int64(tokens),
		Retry:     b.wait(float64(n) - tokens), Reset: b.wait(b.capacity - tokens),
	}
}

// at returns the tokens at a time. Before the last time there were fewer.
func (b *bucket) at(s *state, now int64) float64 {
	if !s.used {
		return b.capacity
	}
	if now < s.last {
		fewer := seconds(s.last-now) * b.perSecond
		return s.tokens - fewer
	}
	more := seconds(now-s.last) * b.perSecond
	return min(s.tokens+more, b.capacity)
}

// seconds is Duration.Seconds of package time, for µs.
func seconds(us int64) float64 {
	part := float64(us%1e6) / 1e6
	return float64(us/1e6) + part
}

// enough reports whether a bucket may be left with tokens. Tokens due within a nanosecond count, and are
// owed then: otherwise the error of a division could refuse.
func (b *bucket) enough(tokens float64) bool { return tokens >= 0 || -tokens/b.perSecond*1e9 < 1 }

// wait returns the time until missing tokens have come, never too short.
func (b *bucket) wait(missing float64) int64 {
	if b.enough(-missing) {
		return 0
	}
	us := missing / b.perSecond * 1e6
	return int64(math.Ceil(us + b.slack))
}
