package compare

import (
	"maps"
	"strconv"

	"github.com/redisson-go/rratelimiter"
)

// redisson is the model of Redisson 4.7.0, with all its faults. The real one
// must do this and nothing else, so a fault excuses no more than this does.
var redisson = modelOf(redissonStep)

func redissonStep(st *state, s Step, now int64) answer {
	switch s.Op {
	case TrySetRate, SetRate, UpdateRate:
		return redissonRate(st, s, now)
	case TryAcquire, AvailablePermits, Release:
		return redissonPermits(st, s, now)
	case GetConfig:
		switch {
		case st.hash == nil:
			return answer{result: describe(rratelimiter.Config{})}
		case !st.settings().whole:
			return answer{err: unreadable}
		}
		return configOf(*st)
	case Expire:
		redissonExpire(st, now+s.TTL.Milliseconds())
		return yes(!st.nothing())
	case ClearExpire:
		return yes(redissonExpire(st, 0))
	}
	return inBothModels(st, s)
}

// redissonExpire lets all five keys end at a time, and reports whether one of
// them had an end before.
func redissonExpire(st *state, at int64) (had bool) {
	p := &st.pairs
	for _, ends := range []*int64{
		&st.ends, &p[0].valueEnds, &p[0].recordsEnds, &p[1].valueEnds, &p[1].recordsEnds,
	} {
		had = had || *ends != 0
		*ends = at
	}
	return had
}

func redissonPermits(st *state, s Step, now int64) answer {
	switch {
	case s.Op == Release && s.Permits < 0:
		return answer{err: BadArgument}
	case s.Op == Release && s.Permits == 0:
		return answer{}
	case !st.settings().whole:
		return answer{err: NotInitialized}
	case s.Op == TryAcquire:
		return redissonAcquire(st, s.Permits, now)
	case s.Op == AvailablePermits:
		return redissonAvailable(st, now)
	}
	c, p := st.settings(), st.inForce()
	value, ok := p.number()
	if !ok {
		value = c.rate
	}
	p.set(min(c.rate, value+s.Permits))
	redissonLife(st, now)
	return answer{}
}

// set is SET of a number of Lua, which is no integer any more from 10^17 on
// (B14). SET removes the time to live.
func (p *pair) set(value int64) {
	p.value, p.valueEnds = strconv.FormatFloat(float64(value), 'g', 17, 64), 0
}

func redissonRate(st *state, s Step, now int64) answer {
	if keep := s.Limit.KeepAlive; keep != 0 && keep < s.Limit.Interval {
		return answer{err: BadArgument}
	}
	if s.Op == UpdateRate && st.hash == nil {
		return yes(false)
	}
	before := st.hash
	_, typed := before["type"]
	st.hash = fieldsOf(s)
	if s.Op == TrySetRate {
		maps.Copy(st.hash, before)
		if typed {
			return yes(false)
		}
	}
	if keep := s.Limit.KeepAlive.Milliseconds(); keep > 0 {
		st.ends = now + keep
	}
	redissonRatePairs(st, s, now, typed && before["type"] != st.hash["type"])
	if s.Op == SetRate {
		return answer{}
	}
	return yes(true)
}

// redissonRatePairs does with the pairs what setting a rate does.
func redissonRatePairs(st *state, s Step, now int64, retyped bool) {
	p := &st.pairs[s.Limit.Type]
	switch {
	case s.Op == TrySetRate:
	case s.Op == SetRate && !s.KeepState: // another method in Java, which does not look at the former type
		*p = pair{}
	case retyped:
		st.pairs = [2]pair{}
	case !s.KeepState:
		*p = pair{}
	default:
		p.records, _ = p.split(now, s.Limit.Interval.Milliseconds())
		*st = st.tidy()
		p.set(max(0, double(s.Limit.Rate)-sum(p.records)))
		redissonLife(st, now)
	}
}

func redissonAcquire(st *state, n, now int64) answer {
	c, p := st.settings(), st.inForce()
	asked := double(n) // DECRBY gets the exact text
	if double(c.rate) < asked {
		return answer{err: ExceedsRate}
	}
	value := c.rate
	if p.value == "" {
		p.set(value)
	} else if value = p.dropExpired(c, now, true); double(value) < asked {
		if len(p.records) == 0 {
			return answer{err: nilValue} // what was written before the error stays
		}
		redissonLife(st, now)
		return yes(false)
	}
	p.records = append(p.records, record{now, int64(uint32(asked)), false})
	p.value = decimal(value - n)
	redissonLife(st, now)
	return yes(true)
}

// dropExpired adds what the expired records hold to the value and removes them,
// unless they hold nothing. It returns the value.
func (p *pair) dropExpired(c settings, now int64, clamp bool) (value int64) {
	value, _ = p.number()
	live, old := p.split(now, c.interval)
	released := sum(old)
	if released == 0 {
		return value
	}
	p.records = live
	if len(live) == 0 {
		p.recordsEnds = 0
	}
	value = double(value + released)
	if clamp && value > c.rate {
		value = c.rate - sum(live)
	}
	p.set(value)
	return value
}

// double returns a number as Lua has it: beyond 2^53 there are gaps (B14).
func double(n int64) int64 { return int64(float64(n)) }

func redissonAvailable(st *state, now int64) answer {
	c, p := st.settings(), st.inForce()
	if p.value == "" {
		p.set(c.rate)
		return answered(c.rate, nil)
	}
	return answered(p.dropExpired(c, now, false), nil)
}

// redissonLife is the end of Redisson's scripts: everything lives keepAliveTime
// longer, or value and permits as long as the hash.
func redissonLife(st *state, now int64) {
	c, p := st.settings(), st.inForce()
	if c.keep > 0 {
		st.ends = now + c.keep
	}
	if st.ends != 0 {
		p.valueEnds, p.recordsEnds = st.ends, st.ends
	}
}
