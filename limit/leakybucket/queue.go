package leakybucket

import (
	"math"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// A Queue lets requests out at a constant pace: one every Interval/Rate. Wait stands in line for a
// turn. Allow takes a turn if nothing is owed, and refuses otherwise.
//
// A request for n permits takes n turns. It goes at once if nothing is owed, and the next request goes
// n*Interval/Rate later. So an interval has fewer than twice Rate permits. Result.Limit is Rate.
// Result.Remaining is Rate if nothing is owed, otherwise 0. While callers stand in line, ResetAfter may
// be longer than Result.Interval.
//
// Release gives back turns at the end of the line. Waiting callers keep theirs.
//
// If the clock is set back, that time is owed again, up to two intervals or the wait of a full line,
// whichever is longer. If it is set forward, the time of the step is no longer owed.
type Queue struct {
	Rate     int64         // 1 to 2^40
	Interval time.Duration // 1 ms to 3,660 days; a part of a microsecond is dropped
	Capacity int64         // how many callers may wait, 1 to 2^40; they wait at most 3,660 days
}

var turn = redisx.Load(files, "queue.lua", false)

// allows is the rule of Allow.
func (q Queue) allows() (form.Rule[line], error) { return q.rule(false) }

// waits is the rule of Wait.
func (q Queue) waits() (form.Rule[line], error) { return q.rule(true) }

func (q Queue) rule(waits bool) (form.Rule[line], error) {
	numbers, err := filled("leakyqueue", q.Capacity, q.Rate, q.Interval)
	if err != nil {
		return form.Rule[line]{}, err
	}
	p := newPacer(q, waits)
	numbers.Limit, numbers.Interval = q.Rate, q.Interval.Truncate(time.Microsecond)
	numbers.Idle = time.Duration(p.most)*time.Microsecond + time.Millisecond
	return form.Rule[line]{
		Numbers: numbers, Take: p.take,
		Script: turn, Args: []any{q.Rate, q.Interval.Microseconds(), p.most, p.longest},
	}, nil
}

// A pacer is the rule of a Queue. Lua and Go perform the same float64 operations in the same order.
// Each result has its own name or conversion, so that the compiler fuses none.
type pacer struct {
	rate, interval float64
	pace           float64 // µs from one turn to the next
	most           float64 // the most that may be owed, in µs
	longest        float64 // the longest wait, in µs; with 0 a turn must be now
}

func newPacer(q Queue, waits bool) pacer {
	p := pacer{rate: float64(q.Rate), interval: float64(q.Interval.Microseconds())}
	p.pace = p.interval / p.rate
	wait := float64(q.Capacity) * p.interval / p.rate
	p.most = math.Ceil(max(2*p.interval, wait+p.pace))
	if waits { // some more, for the error of a sum of turns
		p.longest = wait*(1+1e-12) + nothing
	}
	return p
}

// nothing bounds the error of a sum, in µs: anything less is not owed.
const nothing = 0.001

// A line is the time that is owed, in µs, at the time last: the next turn is when it has passed. tail is
// the turn of the last waiting caller, in µs; a tail in the past means that none waits.
type line struct {
	owed       float64
	last, tail int64
	crowd      *crowd // the waiting callers, nil before the first
}

// take decides as queue.lua does, except for returned turns: see crowd.
func (p pacer) take(l *line, now, n, _ int64) form.Decision {
	owed := p.at(l, now)
	if owed > p.most && l.last > now { // the clock was set far back: as before, or the most
		owed = max(l.owed, p.most)
		l.owed, l.last = owed, now
	}
	wait := int64(math.Ceil(owed))
	switch {
	case n == 0 && wait == 0:
		return form.Decision{Remaining: int64(p.rate)}
	case n == 0 || n > 0 && owed > p.longest:
		return form.Decision{Retry: wait, Reset: wait}
	}
	d := form.Decision{Allowed: true, Retry: wait}
	if n > 0 {
		if wait > 0 {
			l.tail = now + wait
		}
		step := float64(n) * p.interval / p.rate
		owed += step
	} else {
		step := float64(-n) * p.interval / p.rate
		kept := 0.0 // waiting callers keep their turns
		if l.tail > now {
			kept = min(owed, float64(l.tail-now)+p.pace)
		}
		owed = max(kept, owed-step)
	}
	p.set(l, owed, now)
	if d.Reset = int64(math.Ceil(l.owed)); d.Reset == 0 {
		d.Remaining, d.Retry = int64(p.rate), 0
	}
	return d
}

// at returns the time that is owed at now. Before the last time more was owed. Postponed turns are owed
// again.
func (p pacer) at(l *line, now int64) float64 {
	if l.crowd != nil {
		lost := l.crowd.lost()
		l.owed += float64(lost)
		l.tail += lost
	}
	if l.owed == 0 {
		return 0
	}
	return settled(l.owed - float64(now-l.last))
}

func (p pacer) set(l *line, owed float64, now int64) {
	if l.owed, l.last = settled(owed), now; l.owed == 0 {
		l.tail = 0
	}
}

// settled rounds what is less than nothing down to 0.
func settled(owed float64) float64 {
	if owed < nothing {
		return 0
	}
	return owed
}
