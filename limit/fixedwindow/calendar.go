package fixedwindow

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Calendar is a quota of Rate permits in each day, week, month or year of a calendar. All permits are back
// when the next one begins, which Result.ResetAfter tells exactly: at midnight, on Monday, on the first, or
// on January 1. Days on which clocks are changed have 23 or 25 hours; a period that would begin at a time
// which clocks skip begins right after the skip, and one that begins at a time which clocks show twice, the
// first time. Result.Interval is the length of a period without changes of clocks: of a month 31 days, of a
// year 366.
//
// As with a Window, callers may take the rate at the end of a period and again at the beginning of the
// next.
type Calendar struct {
	Rate int64 // 1 to 2^40
	Unit Unit  // Day, Week, Month or Year

	// Location is the time zone. The default is UTC. A machine without a database of time zones has
	// them by importing time/tzdata.
	Location *time.Location

	// Anchor is when one of the periods begins, such as a customer's first one: its time of day in
	// Location, its weekday, its day of the month (in a shorter month, the last day), or its day of
	// the year (for February 29, February 28 in other years). There are periods before it as well.
	// A part of a second is dropped. The default is a midnight, on a Monday, January 1.
	Anchor time.Time
}

// A Unit is the kind of the periods of a Calendar.
type Unit int

// The units of a Calendar.
const (
	Day Unit = iota + 1
	Week
	Month
	Year
)

// lengths are those of the longest periods, without changes of clocks.
var lengths = [...]time.Duration{Day: day, Week: 7 * day, Month: 31 * day, Year: 366 * day}

const day = 24 * time.Hour

// InMemory returns a limiter in this process. Later calls drop the windows of keys once they have ended. The
// error is a limit.ErrInvalidArgument if a field is out of its bounds.
func (c Calendar) InMemory(opts ...limit.Option) (limit.Ledger, error) {
	return form.Ledger(form.InMemory(c.rule, opts))
}

// OnRedis returns a limiter shared by all that use its name, of 1 to 1,024 bytes. Its Redis key is
// {name}:calendar, or {name:key}:calendar for a key of For, with the permits taken, and the times at which
// their window begins and ends. Redis drops the key when the period ends. The clock of Redis decides which
// period it is, whatever the clock of this machine says: the first call of a period takes a second round
// trip. A lost reply is an error, and may cost permits until the end of the period. The error is that of
// InMemory, also for a nil rdb or an unusable name.
//
// Limiters with other numbers may use the same name, as during a deploy. They share one window, which lasts
// until the latest of their ends.
func (c Calendar) OnRedis(rdb redis.UniversalClient, name string) (limit.Ledger, error) {
	return form.Ledger(form.OnRedis(c.rule, rdb, name))
}

var calendarScript = redisx.Load(files, "calendar.lua", false)

func (c Calendar) rule() (form.Rule[quota], error) {
	if err := form.Permits("Rate", c.Rate); err != nil {
		return form.Rule[quota]{}, err
	}
	if c.Unit < Day || c.Unit > Year {
		return form.Rule[quota]{}, fmt.Errorf("%w: Unit is %d, must be Day, Week, Month or Year",
			limit.ErrInvalidArgument, c.Unit)
	}
	p := c.periods()
	return form.Rule[quota]{
		Numbers: form.Numbers{
			Algorithm: "calendar", Limit: c.Rate, Interval: lengths[c.Unit], Idle: lengths[c.Unit],
		},
		Take: p.take, Owes: func(q *quota, now int64) bool { return q.end > now },
		Script: calendarScript, ArgsAt: p.args,
	}, nil
}

// A quota is a window, in µs.
type quota struct {
	state
	from int64
}

// take decides as calendar.lua does.
func (p *periods) take(q *quota, now, n, stamp int64) form.Decision {
	of := p.at(now)
	if q.end <= now || q.used == 0 { // Redis has dropped it, for good if the clock is set back
		*q = quota{state{end: of.to}, of.from}
	}
	if n == 0 { // a look changes nothing, as on Redis
		looked := *q
		q = &looked
	}
	if q.from > now { // the clock was set back
		q.end = min(q.end, of.next)
	}
	return q.take(p.Rate, q.end-now, n, stamp, stamp != q.end)
}

// args returns the arguments of the script. A year that began before 1970 begins after form.Charge, because
// the beginning of a period is a stamp.
func (p *periods) args(now int64) []any {
	of := p.at(now)
	return []any{p.Rate, max(of.from, form.Charge+1), of.to, of.next}
}

// periods finds the periods of a Calendar, whose optional fields are set.
type periods struct {
	Calendar
	last atomic.Pointer[period] // to avoid computing it for each call
}

// A period is one of the calendar, and the end of the next one, in µs since 1970.
type period struct{ from, to, next int64 }

func (c Calendar) periods() *periods {
	p := &periods{Calendar: c}
	if c.Location == nil {
		p.Location = time.UTC
	}
	if p.Anchor = c.Anchor.In(p.Location); c.Anchor.IsZero() {
		p.Anchor = time.Date(2001, time.January, 1, 0, 0, 0, 0, p.Location) // a Monday
	}
	return p
}

// at returns the period that contains a time.
func (p *periods) at(now int64) *period {
	of := p.last.Load()
	if of != nil && of.from <= now && now < of.to {
		return of
	}
	t, of := time.UnixMicro(now), &period{}
	i := 2 // clocks that are put back at the beginning of a day show the day before again
	for of.from = p.begin(t, i); of.from > now; of.from = p.begin(t, i) {
		i--
	}
	of.to = p.begin(t, i+1)
	for of.next = of.to; of.next == of.to; i++ { // where clocks skip a day, it has no time
		of.next = p.begin(t, i+2)
	}
	p.last.Store(of)
	return of
}

// begin returns when the i-th period after that of the date of t begins, in µs since 1970.
func (p *periods) begin(t time.Time, i int) int64 {
	y, m, d := t.In(p.Location).Date()
	switch p.Unit {
	case Day:
		d += i
	case Week:
		since := t.In(p.Location).Weekday() - p.Anchor.Weekday()
		d += 7*i - int(since+7)%7
	case Month:
		m += time.Month(i)
	default:
		y, m = y+i, p.Anchor.Month()
	}
	if p.Unit >= Month {
		d = min(p.Anchor.Day(), time.Date(y, m+1, 0, 0, 0, 0, 0, time.UTC).Day())
	}
	hour, minute, second := p.Anchor.Clock()
	wall := time.Date(y, m, d, hour, minute, second, 0, time.UTC) // Redis drops keys at full ms
	return first(wall, p.Location).UnixMicro()
}

// first returns when the clocks of a zone first show a time, given in UTC, or a later one if they skip it.
// Unlike what time.Date returns, it never decreases with the time.
func first(wall time.Time, zone *time.Location) time.Time {
	for t := wall.Add(-2 * day).In(zone); ; { // no zone is as far from UTC
		start, end := t.ZoneBounds()
		if !end.IsZero() && !end.After(t) { // on December 31 of leap years (golang/go#81583)
			end = t.Add(time.Hour)
		}
		_, offset := t.Zone()
		at := wall.Add(time.Duration(-offset) * time.Second)
		switch {
		case !end.IsZero() && !at.Before(end):
			t = end
		case !start.IsZero() && at.Before(start):
			return start
		default:
			return at
		}
	}
}
