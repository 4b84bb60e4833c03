package leakybucket

import (
	"math"

	"github.com/redisson-go/rratelimiter/internal/form"
)

// A hole is the rule of a Meter. Lua and Go perform the same float64 operations in the same order.
// Each result has its own name or conversion, so that the compiler fuses none.
type hole struct{ capacity, rate, interval float64 }

// A water is the permits in a bucket at a time in µs. Its zero value is an empty bucket.
type water struct {
	level float64
	last  int64
}

// pour decides as pour.lua does.
func (h hole) pour(w *water, now, n, stamp int64) form.Decision {
	level, more := h.at(w, now), float64(n)
	most := max(w.level, h.capacity)
	if level > h.capacity+most && w.last > now { // the clock was set far back: full, or as it was
		level = most
		*w = water{level, now}
	}
	charge := stamp == form.Charge
	switch {
	case n < 0 && stamp > 0: // water that has leaked out is not given back
		flow := float64(stamp-now) * h.rate
		due := flow / h.interval
		more = min(0, max(more, -due))
	case n == 0 || n > 0 && !charge && more > h.capacity-level:
		return form.Decision{
			Remaining: h.left(level),
			Retry:     h.wait(w, now, level, max(more, 1)), Reset: h.wait(w, now, level, h.capacity),
		}
	}
	level = level + more
	if charge {
		level = min(level, h.highest())
	}
	if level <= 0 {
		*w = water{}
		return form.Decision{Allowed: true, Remaining: int64(h.capacity)}
	}
	*w = water{level, now}
	return form.Decision{
		Allowed: true, Remaining: h.left(level), Reset: h.wait(w, now, level, h.capacity),
	}
}

// left returns the whole permits that are left above a level, below 0 those of a debt.
func (h hole) left(level float64) int64 { return int64(math.Floor(h.capacity - level)) }

// highest returns the level up to which permits are charged: it is exact, and leaks out in time.
func (h hole) highest() float64 {
	longest := float64(form.MostTime.Microseconds()) * h.rate / h.interval
	return min(form.MostPermits, h.capacity+longest)
}

// owes reports whether there is water in the bucket.
func (h hole) owes(w *water, now int64) bool { return h.at(w, now) > 0 }

// at returns the level at a time. Before the last time there was more water.
func (h hole) at(w *water, now int64) float64 {
	if w.level == 0 {
		return 0
	}
	flow := float64(now-w.last) * h.rate
	gone := flow / h.interval
	return max(0, w.level-gone)
}

// wait returns the time until there is room for n permits above a level, never too short: a float64
// holds the time to a fraction of a µs, and wait computes the level as a call at that time will.
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
