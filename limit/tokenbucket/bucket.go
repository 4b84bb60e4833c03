package tokenbucket

import (
	"math"

	"github.com/redisson-go/rratelimiter/internal/form"
)

// A bucket is the rule. Lua and Go have the same float64 operations in the same order.
// None is fused: the result of each has a name or a conversion of its own.
type bucket struct{ capacity, perSecond float64 }

// A state is the tokens at a time in µs. It is the zero one when the bucket is full.
type state struct {
	tokens float64
	last   int64
	used   bool
}

// take is take.lua.
func (b bucket) take(s *state, now, n int64) form.Answer {
	tokens := b.at(s, now)
	if !b.enough(tokens + b.capacity) { // the clock was set far back: begin anew, with nothing
		tokens = 0
		*s = state{0, now, true}
	}
	if rest := tokens - float64(n); b.enough(rest) {
		*s = state{min(rest, b.capacity), now, true}
		a := form.Answer{
			Allowed: true, Remaining: int64(math.Floor(s.tokens)),
			Reset: b.wait(s, now, s.tokens, b.capacity),
		}
		if s.tokens == b.capacity {
			*s = state{}
		}
		return a
	}
	return form.Answer{
		Remaining: int64(math.Floor(tokens)),
		Retry:     b.wait(s, now, tokens, float64(n)), Reset: b.wait(s, now, tokens, b.capacity),
	}
}

// at returns the tokens at a time. A time before the last one has fewer of them.
func (b bucket) at(s *state, now int64) float64 {
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

// enough reports whether so many tokens may be left. What comes within a nanosecond is
// there, so that the error of a division is no refusal; it is owed then.
func (b bucket) enough(tokens float64) bool { return tokens >= 0 || -tokens/b.perSecond*1e9 < 1 }

// wait returns the time until n tokens are there, of which it has some. It is never too short: a float64 has
// the time to a part of a µs, and the sum is done as it will be done then.
func (b bucket) wait(s *state, now int64, has, n float64) int64 {
	missing := n - has
	if b.enough(-missing) {
		return 0
	}
	us := int64(missing / b.perSecond * 1e6)
	for range 2 {
		if b.enough(b.at(s, now+us) - n) {
			break
		}
		us++
	}
	return us
}
