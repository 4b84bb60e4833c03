package leakybucket

import (
	"github.com/redisson-go/rratelimiter/internal/form"
)

// A hole is the rule of a Meter. Lua and Go have the same float64 operations in the same order. Each
// result has a name or a conversion of its own, so that the compiler fuses none.
type hole struct{ capacity, rate, interval float64 }

// A water is the permits in a bucket at a time in µs. Its zero value is an empty bucket.
type water struct {
	level float64
	last  int64
}

// pour decides as pour.lua does.
func (h hole) pour(w *water, now, n int64) form.Decision {
	level := h.at(w, now)
	if level > 2*h.capacity && w.last > now { // the clock was set far back: full, or as it was
		level = max(w.level, h.capacity)
		*w = water{level, now}
	}
	if n > 0 && float64(n) > h.capacity-level {
		return form.Decision{
			Remaining: int64(h.capacity - level),
			Retry:     h.wait(w, now, level, float64(n)), Reset: h.wait(w, now, level, h.capacity),
		}
	}
	if level = level + float64(n); level <= 0 {
		*w = water{}
		return form.Decision{Allowed: true, Remaining: int64(h.capacity)}
	}
	*w = water{level, now}
	return form.Decision{
		Allowed: true, Remaining: int64(h.capacity - level), Reset: h.wait(w, now, level, h.capacity),
	}
}

// at returns the level at a time. Before the last time there was more water.
func (h hole) at(w *water, now int64) float64 {
	if w.level == 0 {
		return 0
	}
	flow := float64(now-w.last) * h.rate
	gone := flow / h.interval
	return max(0, w.level-gone)
}

// wait returns the time until there is room for n permits above a level, never too short: a float64 has
// the time to a part of a µs, and wait computes the level as a call at that time will.
func (h hole) wait(w *water, now int64, level, n float64) int64 {
	excess := n - (h.capacity - level)
	if excess <= 0 {
		return 0
	}
	us := int64(float64(excess*h.interval) / h.rate)
	for range 2 {
		if n <= h.capacity-h.at(w, now+us) {
			break
		}
		us++
	}
	return us
}
