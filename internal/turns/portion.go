package turns

import (
	"slices"
	"strconv"
	"time"
)

// A Portion is how a queue shares its limit with other processes of Go and with Java while callers stand in
// line. Each request says how many permits callers wait for here, how many were granted here in the last
// interval, and how many Java took lately. Redis adds up the processes, and Java as one more
// (scripts/parts/portion.lua). A process with more than its waiters account for leaves returning permits
// untouched for a moment, and then takes those still there. Otherwise the process nearest to Redis would
// always win, and Java, whose waiters wake up late, would get next to nothing.
//
// A request says nothing of this while the line is empty, nor for a wire.PerClient limit.
type Portion struct {
	interval      time.Duration // from the last reply; 0 if unknown
	lastUsed      time.Time     // when a waiter was last refused or served
	countsUntil   time.Time     // the line counts until two intervals after a refusal
	takings       []taking      // of the last interval, the oldest first
	takingsSum    int64         // permits of all takings
	peaks         [2]int64      // most permits waited for, in this interval and the last one
	intervalBegan time.Time     // when the interval of peaks[0] began
	left          []taking      // permits left to other processes, and since when, the oldest first
	paced         bool          // the last refusal asks only to wait for the next burst
	forJava       bool          // the last refusal leaves some permits to Java
	java          javaPart
}

// A javaPart is what Java takes of a limit, as its records tell (scripts/parts/portion.lua).
type javaPart struct {
	took    float64 // permits
	counted time.Time
}

// note records how many permits Java holds. took rises at once and falls slowly: Java keeps
// its portion when its permits have just come back.
func (j *javaPart) note(permits int64, now time.Time) {
	const keeps, least = 0.75, 0.1
	if j.took = max(float64(permits), keeps*j.took); j.took < least {
		j.took = 0
	}
	j.counted = now
}

// leftFor returns how long permits are left before this process takes them.
// That is longer than a distant process needs to ask for them, and at most a twentieth of
// an interval, the part that a dead process leaves unused. A waiter of Redisson wakes up
// to 100 ms late, a tick of its timer. acquire.lua uses the same times.
func (p *Portion) leftFor() time.Duration {
	if p.forJava {
		return min(110*time.Millisecond, p.interval/2)
	}
	return min(40*time.Millisecond, p.interval/20)
}

// burstEvery is the part of an interval in which a process takes at most a burst: a half
// or a quarter of its portion. Permits return as far apart as they were taken. Permits
// taken all at once return at once, and a caller that came just after that would wait for
// two intervals. acquire.lua uses the same time.
func (p *Portion) burstEvery() time.Duration { return p.interval / 8 }

// A taking is a number of permits that were granted, or left to other processes, at a time.
type taking struct {
	at      time.Time
	permits int64
	atOnce  int64 // of callers that do not wait: these do not count, but may be given back
}

// mostTakings bounds the takings, so that a portion does not grow with the rate. Beyond half
// of it, takings of the same 64th of an interval are joined.
const mostTakings = 256

// mostWaited bounds the permits waited for that a request names: sums of them
// stay exact in Lua.
const mostWaited = 1 << 50

// NoteReply records a grant, of toWaiters permits to waiting callers and atOnce to callers that do not wait,
// and how many permits Java holds: java, below 0 if they were not counted.
func (p *Portion) NoteReply(toWaiters, atOnce, java int64, sent time.Time) {
	p.noteGranted(toWaiters, atOnce, sent)
	p.paced = false
	if java >= 0 {
		p.java.note(java, sent)
	}
}

// NoteRefusal records that a waiter stands in line until its permits are due, how many permits were left to
// other processes, and whether some of them were left to Java.
func (p *Portion) NoteRefusal(interval, due time.Duration, left int64, forJava bool, now time.Time) {
	p.forJava = forJava
	switch {
	case interval > 0:
		p.interval = interval
	case p.interval == 0:
		p.interval = due // at least that long; the next reply has it
	}
	p.countsUntil, p.lastUsed = now.Add(2*p.interval), now
	if p.paced = left > 0 && due > p.leftFor(); p.paced {
		left = 0 // this process takes them later
	}
	p.noteLeft(left, now)
}

// noteLeft records how many permits are left to other processes or to Java now. If there are fewer than
// before, the oldest have been taken.
func (p *Portion) noteLeft(permits int64, now time.Time) {
	for _, l := range p.left {
		permits -= l.permits
	}
	for ; permits < 0; p.left = p.left[1:] {
		taken := min(-permits, p.left[0].permits)
		if permits += taken; taken < p.left[0].permits {
			p.left[0].permits -= taken
			break
		}
	}
	switch last := len(p.left) - 1; {
	case permits <= 0:
	case len(p.left) == mostTakings: // later, not earlier
		p.left[last] = taking{at: now, permits: p.left[last].permits + permits}
	default:
		p.left = append(p.left, taking{at: now, permits: permits})
	}
}

// Waits reports whether this process does not yet take available permits.
func (p *Portion) Waits() bool { return p.paced || len(p.left) > 0 }

// NextLook returns when this process may take the next burst, or permits that were
// left to other processes, or sooner the permits that come back here first.
func (p *Portion) NextLook(now time.Time) time.Time {
	if p.paced {
		at := now
		p.recent(now, func(t taking) { at = t.at.Add(p.burstEvery()) })
		return at
	}
	at := now.Add(p.leftFor())
	next := slices.IndexFunc(p.left, func(l taking) bool { return now.Sub(l.at) < p.leftFor() })
	if next >= 0 {
		at = p.left[next].at.Add(p.leftFor())
	}
	if len(p.takings) > 0 {
		if comesBack := p.takings[0].at.Add(p.interval + time.Millisecond); comesBack.Before(at) {
			return comesBack
		}
	}
	return at
}

// LingerFor returns how much longer callers that were served from the line may come back; below 0 if they
// may no longer.
func (p *Portion) LingerFor(now time.Time) time.Duration {
	const longest = time.Second
	return min(p.countsUntil.Sub(now), p.lastUsed.Add(longest).Sub(now))
}

// noteGranted records a grant while the line counts. Permits of callers that do not wait do not count
// against it.
func (p *Portion) noteGranted(permits, atOnce int64, now time.Time) {
	if permits+atOnce <= 0 || !p.countsUntil.After(now) {
		return
	}
	if permits > 0 {
		p.lastUsed = now
	}
	p.takingsSum += permits
	last := len(p.takings) - 1
	if last > mostTakings/2 && now.Sub(p.takings[last-1].at) < p.interval*4/mostTakings {
		t := &p.takings[last] // with the earlier date, this process would claim permits too early
		*t = taking{now, t.permits + permits, t.atOnce + atOnce}
		return
	}
	p.takings = append(p.takings, taking{now, permits, atOnce})
}

// NoteReleased records permits that went back, the newest first, as in release.lua: they no
// longer count against the line. It accepts a nil Portion.
func (p *Portion) NoteReleased(permits int64) {
	if p == nil {
		return
	}
	for last := len(p.takings) - 1; permits > 0 && last >= 0; last-- {
		t := &p.takings[last]
		atOnce := min(permits, t.atOnce)
		t.atOnce -= atOnce
		counted := min(permits-atOnce, t.permits)
		t.permits -= counted
		p.takingsSum -= counted
		if permits -= atOnce + counted; t.permits+t.atOnce == 0 {
			p.takings = p.takings[:last]
		}
	}
}

// Text returns the argument of a request about the portion, while callers wait for
// waited permits; nil for none.
func (p *Portion) Text(waited int64, goOnly bool, now time.Time) any {
	if !p.countsUntil.After(now) {
		return nil
	}
	for len(p.takings) > 0 && now.Sub(p.takings[0].at) >= p.interval {
		p.takingsSum -= p.takings[0].permits
		p.takings = p.takings[1:]
	}
	if since := now.Sub(p.intervalBegan); since >= p.interval {
		p.peaks[1] = p.peaks[0]
		if since >= 2*p.interval {
			p.peaks[1] = 0
		}
		p.peaks[0], p.intervalBegan = 0, now
	}
	// Callers that were just served return one by one. Meanwhile the peak counts them as
	// waiting.
	p.peaks[0] = max(p.peaks[0], min(waited, mostWaited))
	text := strconv.AppendInt(nil, max(p.peaks[0], p.peaks[1]), 10)
	text = strconv.AppendInt(append(text, ' '), max(p.takingsSum, 0), 10)
	text = append(text, ' ')
	var left, recent int64
	for _, l := range p.left {
		if now.Sub(l.at) >= p.leftFor() {
			left += l.permits
		}
	}
	p.recent(now, func(t taking) { recent += t.permits })
	text = append(strconv.AppendInt(text, left, 10), ' ')
	text = append(strconv.AppendInt(text, recent, 10), ' ')
	if goOnly {
		return append(text, "- 0"...)
	}
	text = strconv.AppendFloat(text, p.java.took, 'f', 2, 64)
	if now.Sub(p.java.counted) < p.interval/16 {
		return append(text, " 0"...)
	}
	return append(text, " 1"...)
}

// recent calls f with the takings of the last burstEvery, the newest first.
func (p *Portion) recent(now time.Time, f func(taking)) {
	for i := len(p.takings) - 1; i >= 0 && now.Sub(p.takings[i].at) < p.burstEvery(); i-- {
		f(p.takings[i])
	}
}
