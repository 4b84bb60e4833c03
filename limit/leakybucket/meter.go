package leakybucket

import (
	"github.com/redisson-go/rratelimiter/internal/form"
)

// A hole is the rule of a Meter. Lua and Go have the same float64 operations in the same
// order. None is fused: the result of each has a name or a conversion of its own.
type hole struct{ capacity, rate, interval float64 }

// A water is the permits in a bucket at a time in µs. It is zero when there are none.
type water struct {
	level float64
	last  int64
}

// pour is pour.lua.
func (h hole) pour(w *water, now, n int64) form.Answer {
	level := h.at(w, now)
	if level > 2*h.capacity && w.last > now { // the clock was set far back: full, or what was in it
		level = max(w.level, h.capacity)
		*w = water{level, now}
	}
	if n > 0 && float64(n) > h.capacity-level {
		return form.Answer{
			Remaining: int64(h.capacity - level),
			Retry:     h.wait(w, now, level, float64(n)), Reset: h.wait(w, now, level, h.capacity),
		}
	}
	if level = level + float64(n); level <= 0 {
		*w = water{}
		return form.Answer{Allowed: true, Remaining: int64(h.capacity)}
	}
	*w = water{level, now}
	return form.Answer{
		Allowed: true, Remaining: int64(h.capacity - level), Reset: h.wait(w, now, level, h.capacity),
	}
}

// at returns the level at a time. A time before the last one has more water.
func (h hole) at(w *water, now int64) float64 {
	if w.level == 0 {
		return 0
	}
	flow := float64(now-w.last) * h.rate
	gone := flow / h.interval
	return max(0, w.level-gone)
}

// wait returns the time until there is room for n permits above a level. It is never too short: a
// float64 has the time to a part of a µs, and the sum is done as it will be done then.
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
