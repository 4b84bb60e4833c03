package leakybucket

import (
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Queue lets requests out at a constant pace: one each Interval/Rate. Wait stands in
// line for a turn. Allow takes a turn if it is now: while anything is owed, it refuses.
//
// A request of n permits is n turns. It goes at once if nothing is owed, and the next
// one goes n*Interval/Rate later. So an interval has fewer than twice Rate permits.
// Result.Limit is Rate, and Result.Remaining is Rate if nothing is owed, otherwise 0. With
// a line, ResetAfter may be longer than Result.Interval.
//
// Release gives back turns at the end. Those who wait keep theirs.
//
// If the clock is set back, the time that comes again is owed again, up to the longer one
// of two intervals and what a full line takes. If it is set forward, nothing is owed any more
// for what it was set by.
type Queue struct {
	Rate     int64         // 1 to 2^40
	Interval time.Duration // 1 ms to 3,660 days; a part of a microsecond is dropped
	Capacity int64         // how many may wait, 1 to 2^40; they wait 3,660 days at most
}

// InMemory is LineInMemory for those who do not wait.
func (q Queue) InMemory(opts ...limit.Option) (limit.Releaser, error) {
	return q.LineInMemory(opts...)
}

// InMemoryKeyed is LineInMemoryKeyed for those who do not wait.
func (q Queue) InMemoryKeyed(opts ...limit.Option) (limit.KeyedReleaser, error) {
	return q.LineInMemoryKeyed(opts...)
}

// OnRedis is LineOnRedis for those who do not wait.
func (q Queue) OnRedis(rdb redis.UniversalClient, name string) (limit.Releaser, error) {
	return q.LineOnRedis(rdb, name)
}

// OnRedisKeyed is LineOnRedisKeyed for those who do not wait.
func (q Queue) OnRedisKeyed(rdb redis.UniversalClient, name string) (limit.KeyedReleaser, error) {
	return q.LineOnRedisKeyed(rdb, name)
}

var turn = redisx.Load(files, "queue.lua", false)

// allows is the rule of those who do not wait.
func (q Queue) allows() (form.Rule[line], error) { return q.rule(false) }

// waits is the rule of those who wait.
func (q Queue) waits() (form.Rule[line], error) { return q.rule(true) }

func (q Queue) rule(waits bool) (form.Rule[line], error) {
	interval, _, err := drain(q.Capacity, q.Rate, q.Interval)
	if err != nil {
		return form.Rule[line]{}, err
	}
	p := newPacer(q, interval, waits)
	return form.Rule[line]{
		Numbers: form.Numbers{
			Algorithm: "leakyqueue", Limit: q.Rate, Interval: time.Duration(interval) * time.Microsecond,
			Rest: time.Duration(p.most)*time.Microsecond + time.Millisecond,
		},
		Take:   p.take,
		Script: turn,
		Args:   []any{q.Rate, interval, p.most, p.longest},
	}, nil
}

// A pacer is the rule of a Queue. Lua and Go have the same float64 operations in the same
// order. None is fused: the result of each has a name or a conversion of its own.
type pacer struct {
	rate, interval float64
	pace           float64 // µs from one turn to the next
	most           float64 // that may be owed, in µs
	longest        float64 // that one may wait, in µs; 0 takes a turn only if it is now
}

func newPacer(q Queue, interval int64, waits bool) pacer {
	p := pacer{rate: float64(q.Rate), interval: float64(interval)}
	p.pace = p.interval / p.rate
	wait := float64(q.Capacity) * p.interval / p.rate
	p.most = math.Ceil(max(2*p.interval, wait+p.pace))
	if waits { // a little more, for the error of a sum of turns
		p.longest = wait*(1+1e-12) + nothing
	}
	return p
}

// nothing is less than is owed, in µs: the error of a sum.
const nothing = 0.001

// A line is what is owed at a time in µs: nobody has a turn until that has passed. tail is
// the turn of the last one that waits, in µs, of whom nothing is known unless it is to
// come.
type line struct {
	owed       float64
	last, tail int64
	crowd      *crowd // those who wait, nil if none ever has
}

// take is queue.lua, but for turns that are given back: see crowd.
func (p pacer) take(l *line, now, n int64) form.Answer {
	owed := p.at(l, now)
	if owed > p.most && l.last > now { // the clock was set far back: what was owed, or the most
		owed = max(l.owed, p.most)
		l.owed, l.last = owed, now
	}
	wait := int64(math.Ceil(owed))
	if n > 0 && owed > p.longest {
		return form.Answer{Retry: wait, Reset: wait}
	}
	a := form.Answer{Allowed: true, Retry: wait}
	if n > 0 {
		if wait > 0 {
			l.tail = now + wait
		}
		step := float64(n) * p.interval / p.rate
		owed += step
	} else {
		step := float64(-n) * p.interval / p.rate
		kept := 0.0 // those who wait keep their turns
		if l.tail > now {
			kept = min(owed, float64(l.tail-now)+p.pace)
		}
		owed = max(kept, owed-step)
	}
	p.set(l, owed, now)
	if a.Reset = int64(math.Ceil(l.owed)); a.Reset == 0 {
		a.Remaining, a.Retry = int64(p.rate), 0
	}
	return a
}

// at returns what is owed at a time. A time before the last one owes more.
// Turns that were put off are owed once more.
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

// settled returns what is owed, 0 if it is nothing.
func settled(owed float64) float64 {
	if owed < nothing {
		return 0
	}
	return owed
}
