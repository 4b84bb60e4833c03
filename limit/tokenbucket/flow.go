package tokenbucket

import (
	"math"

	"github.com/redisson-go/rratelimiter/internal/form"
)

// coldFactor is how many times longer a permit of a cold Smooth takes, as in Guava.
const coldFactor = 3

// A flow is the rule of a Smooth, in µs and permits. Saved permits of a warm Smooth cost as much as fresh
// ones; the more are saved above the threshold, the colder it is, and the more each costs.
//
// The arithmetic is that of Guava, which drops parts of a µs.
type flow struct {
	stable    float64 // µs between two permits
	most      float64 // saved permits
	save      float64 // µs in which one permit is saved
	warm      bool    // has a WarmUp
	threshold float64 // saved permits up to which it is warm
	slope     float64 // µs that a permit takes longer for each one saved above the threshold
	limit     int64
}

func newFlow(perSecond, warmUp float64, limit int64) flow {
	f := flow{stable: 1e6 / perSecond, most: perSecond, limit: limit}
	f.save = f.stable
	if warmUp > 0 {
		cold := f.stable * coldFactor
		f.warm = true
		f.threshold = 0.5 * warmUp / f.stable
		f.most = f.threshold + 2*warmUp/(f.stable+cold)
		f.slope = (cold - f.stable) / (f.most - f.threshold)
		f.save = warmUp / f.most
	}
	return f
}

// latest bounds the time at which a request is granted, in µs, so that a sum with it stays an int64.
const latest = math.MaxInt64 / 2

// A ticket is the state of a Smooth: the saved permits, and when it grants the next request.
type ticket struct {
	saved      float64
	next, last int64 // µs; last is the time of the last call
	used       bool
}

// at brings t to a time. If the clock was set back, the owed time moves with it.
func (f flow) at(t *ticket, now int64) {
	switch {
	case !t.used:
		*t = ticket{0, now, now, true}
		if f.warm { // it is cold
			t.saved = f.most
		}
	case now < t.last:
		t.next -= t.last - now
	}
	if t.last = now; now > t.next {
		more := float64(now-t.next) / f.save
		t.saved = min(f.most, t.saved+more)
		t.next = now
	}
}

// reserve takes n permits, and returns how long their caller waits.
func (f flow) reserve(t *ticket, now, n int64) (wait int64) {
	f.at(t, now)
	wait = t.next - now
	spent := min(float64(n), t.saved)
	fresh := float64(n) - spent
	t.next = min(latest, t.next+f.cost(t.saved, spent)+int64(fresh*f.stable))
	t.saved -= spent
	return wait
}

// cost returns the µs that spending spent of the saved permits costs.
func (f flow) cost(saved, spent float64) (us int64) {
	if !f.warm {
		return 0
	}
	if above := saved - f.threshold; above > 0 {
		part := min(above, spent)
		both := f.stable + float64(above*f.slope) + f.stable + float64((above-part)*f.slope)
		us = int64(part * both / 2)
		spent -= part
	}
	return us + int64(f.stable*spent)
}

// owes reports whether callers have to wait.
func (f flow) owes(t *ticket, now int64) bool {
	f.at(t, now)
	return t.next > now
}

// take serves Allow, which does not wait.
func (f flow) take(t *ticket, now, n, _ int64) form.Decision {
	f.at(t, now)
	if owed := t.next - now; owed > 0 {
		return form.Decision{Retry: owed, Reset: owed}
	}
	f.reserve(t, now, n)
	if t.next == now {
		return form.Decision{Allowed: true, Remaining: f.limit}
	}
	return form.Decision{Allowed: true, Reset: t.next - now}
}

// idle returns the µs after which an unused Smooth owes nothing for one request.
func (f flow) idle() float64 {
	dearest := f.stable
	if f.warm {
		dearest *= coldFactor
	}
	return math.Ceil(float64(f.limit)*dearest + f.most*f.save)
}
