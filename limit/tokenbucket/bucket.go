package tokenbucket

import (
	"math"

	"github.com/redisson-go/rratelimiter/internal/form"
)

// A bucket is the rule. Lua and Go perform the same float64 operations in the same order. Each result
// has its own name or conversion, so that the compiler fuses none.
type bucket struct {
	capacity, perSecond float64
	lowest              float64 // the least number of tokens; below 0 they are a debt
}

// newBucket returns the rule of a bucket. A debt is bounded, so that it can be counted exactly and is paid
// within form.MostTime.
func newBucket(capacity, perSecond float64) *bucket {
	longest := form.MostTime.Seconds() * perSecond
	return &bucket{capacity, perSecond, -min(form.MostPermits-capacity, longest)}
}

// A state is the tokens at a time in µs. Its zero value is a full bucket.
type state struct {
	tokens float64
	last   int64
	used   bool
}

// take decides as take.lua does.
func (b *bucket) take(s *state, now, n, stamp int64) form.Decision {
	tokens, taken := b.at(s, now), float64(n)
	charge := stamp == form.Charge
	if debt := min(0, s.tokens); now < s.last && !b.enough(tokens+b.capacity-debt) {
		tokens = debt // the clock was set far back: start over, empty
		*s = state{tokens, now, true}
	}
	if n < 0 && stamp > 0 { // tokens that have come are not given back
		due := float64(stamp-now) / 1e6 * b.perSecond
		taken = min(0, max(taken, -due))
	}
	if rest := tokens - taken; n != 0 && (charge || b.enough(rest) || n < 0) {
		*s = state{max(b.lowest, min(rest, b.capacity)), now, true}
		d := form.Decision{
			Allowed: true, Remaining: b.whole(s.tokens),
			Reset: b.wait(b.capacity - s.tokens),
		}
		if s.tokens == b.capacity {
			*s = state{}
		}
		return d
	}
	return form.Decision{
		Remaining: b.whole(tokens),
		Retry:     b.wait(max(taken, 1) - tokens), Reset: b.wait(b.capacity - tokens),
	}
}

// owes reports whether the bucket is not full.
func (b *bucket) owes(s *state, now int64) bool { return b.at(s, now) < b.capacity }

// whole returns the whole tokens, below 0 those of a debt.
func (b *bucket) whole(tokens float64) int64 {
	if b.enough(tokens) {
		return int64(max(0, tokens))
	}
	return int64(math.Floor(tokens))
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

// seconds is time.Duration.Seconds for µs.
func seconds(us int64) float64 {
	part := float64(us%1e6) / 1e6
	return float64(us/1e6) + part
}

// enough reports whether a bucket may be left with tokens. Tokens due within a nanosecond count, and are
// then owed: otherwise a rounding error could refuse.
func (b *bucket) enough(tokens float64) bool { return tokens >= 0 || -tokens/b.perSecond*1e9 < 1 }

// wait returns the time until missing tokens have come, never too short. The tokens, and the time until more
// come, have an error of some parts in 2^53 of the time in which the bucket fills, or a debt is paid. slack
// covers it. It has half a nanosecond less: in a bucket that fills within three days, a wait of whole
// microseconds then stays one.
func (b *bucket) wait(missing float64) int64 {
	if b.enough(-missing) {
		return 0
	}
	fill := max(b.capacity, missing) / b.perSecond
	slack := fill*1e6/(1<<49) - 0.0005
	us := missing / b.perSecond * 1e6
	return int64(math.Ceil(us + slack))
}
