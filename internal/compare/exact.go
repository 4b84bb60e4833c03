package compare

import (
	"slices"
	"strconv"
	"time"

	"github.com/redisson-go/rratelimiter/internal/grants"
)

const (
	// mostPermits is the most that Go grants in one call.
	mostPermits = 1 << 40
	// mostRate is the highest rate that Lua counts exactly.
	mostRate = 1 << 53
	// mostPerRecord is the most that one record holds, in 32 bits.
	mostPerRecord = 1<<32 - 1
)

// expected returns the outcome that a step of Go must have: the limiter is a sliding log, exact to
// the ms. The permits left are always the rate less those of the live records. The value string is
// written and never read.
func (o observation) expected() (want outcome) {
	st := o.before.clone()
	want.answer = exactStep(&st, o.Step, o.now)
	want.state = st.tidy()
	return want
}

func exactStep(st *state, s Step, now int64) answer {
	switch s.Op {
	case TrySetRate, SetRate, UpdateRate:
		return exactRate(st, s, now)
	case TryAcquire, Release:
		return exactPermits(st, s, now)
	case AvailablePermits:
		return exactAvailable(*st, now)
	case Expire:
		if st.hash == nil {
			return yes(false)
		}
		exactExpire(st, now+s.TTL.Milliseconds())
		return yes(true)
	case ClearExpire:
		if st.hash == nil {
			return yes(false)
		}
		ended, c := st.ends != 0, st.settings()
		exactExpire(st, 0)
		c.keep = 0
		exactLife(st, c, now)
		return yes(ended)
	case Delete:
		existed := st.hash != nil || !st.pairs[0].empty() || !st.pairs[1].empty()
		*st = state{}
		return yes(existed)
	}
	panic("no such operation: " + s.Op)
}

// fieldsOf returns the fields that a step writes for its rate.
func fieldsOf(s Step) map[string]string {
	return map[string]string{
		"rate": decimal(s.Limit.Rate), "interval": decimal(s.Limit.Interval.Milliseconds()),
		"type": decimal(int64(s.Limit.Type)), "keepAliveTime": decimal(s.Limit.KeepAlive.Milliseconds()),
	}
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// exactExpire makes the hash and the pair in force expire at a time.
func exactExpire(st *state, at int64) {
	p := st.inForce()
	st.ends, p.valueEnds, p.recordsEnds = at, at, at
}

func exactAvailable(st state, now int64) answer {
	c := st.settings()
	if !c.whole {
		return answer{err: NotInitialized}
	}
	live := st.inForce().records.Within(now, c.interval)
	if c.interval <= 0 {
		live = nil
	}
	return answered(max(0, min(c.rate-live.Sum(), c.rate)), nil)
}

// exactPermits takes permits or gives them back.
func exactPermits(st *state, s Step, now int64) answer {
	c := st.settings()
	switch {
	case s.Permits == 0 && s.Op == Release:
		return answer{}
	case s.Permits < 1 || s.Permits > mostPermits:
		return answer{err: BadArgument}
	case !c.whole:
		return answer{err: NotInitialized}
	case s.Op == Release:
		exactRelease(st, s.Permits, now)
		return answer{}
	case s.Permits > c.rate:
		return answer{err: ExceedsRate}
	}
	return yes(exactAcquire(st, s.Permits, now))
}

func exactRate(st *state, s Step, now int64) answer {
	c := st.settings()
	switch {
	case !s.limits():
		return answer{err: BadArgument}
	case s.Op == TrySetRate && c.whole, s.Op == UpdateRate && !c.whole:
		return yes(false)
	}
	_, typed := st.hash["type"]
	keeps := s.KeepState && typed && c.typ == int(s.Limit.Type)
	kept, ends := st.pairs[c.typ], int64(0)
	if c.whole && c.keep <= 0 { // a time to live of a keep alive goes
		ends = st.ends
	}
	*st = state{hash: fieldsOf(s), ends: ends}
	c = st.settings()
	if keeps {
		kept.records = kept.records.Within(now, c.interval)
		kept.value, kept.valueEnds, kept.recordsEnds = decimal(c.rate-kept.records.Sum()), 0, 0
		st.pairs[c.typ] = kept
	}
	switch {
	case s.Op != TrySetRate:
		exactLife(st, c, now)
	case c.keep > 0:
		st.ends = now + c.lives()
	}
	if s.Op == SetRate {
		return answer{}
	}
	return yes(true)
}

// limits reports whether Go accepts the rate of the step.
func (s Step) limits() bool {
	r := s.Limit
	return r.Rate >= 1 && r.Rate <= mostRate && r.Interval >= time.Millisecond &&
		(r.KeepAlive == 0 || r.KeepAlive >= r.Interval)
}

func exactAcquire(st *state, n, now int64) bool {
	c, p := st.settings(), st.inForce()
	left := exactDrop(st, now)
	granted := n <= left
	for granted && n > 0 && c.interval > 0 {
		part := min(n, mostPerRecord)
		p.records = append(p.records, grants.Grant{At: now, Permits: part, Of: byGo})
		left, n = left-part, n-part
	}
	p.value = decimal(left)
	exactLife(st, c, now)
	return granted
}

func exactRelease(st *state, n, now int64) {
	c, p := st.settings(), st.inForce()
	left := exactDrop(st, now)
	left += p.records.Release(n, byGo)
	p.records = slices.DeleteFunc(p.records, func(g grants.Grant) bool { return g.Permits == 0 })
	p.value = decimal(left)
	exactLife(st, c, now)
}

// exactDrop removes expired records from the pair in force and returns the
// permits left.
func exactDrop(st *state, now int64) (left int64) {
	c, p := st.settings(), st.inForce()
	if p.records = p.records.Within(now, c.interval); c.interval <= 0 { // permits come back at once (B22)
		p.records = nil
	}
	*st = st.tidy()
	return c.rate - p.records.Sum()
}

// exactLife makes the pair in force live as long as the hash. A client's own pair
// in a limiter that does not expire lives until nothing in it can count any more.
func exactLife(st *state, c settings, now int64) {
	p := &st.pairs[c.typ]
	switch {
	case c.keep > 0:
		st.ends = now + c.lives()
		p.valueEnds, p.recordsEnds = st.ends, st.ends
	case st.ends != 0:
		p.valueEnds, p.recordsEnds = st.ends, st.ends
	case c.typ == 1:
		p.valueEnds = now + 2*max(0, c.interval) + time.Minute.Milliseconds()
		p.recordsEnds = p.valueEnds
	default:
		p.valueEnds, p.recordsEnds = 0, 0
	}
}

// lives returns the ms for which Go keeps the limiter alive: at least a second
// longer than the interval.
func (c settings) lives() int64 { return max(c.keep, c.interval+1000) }
