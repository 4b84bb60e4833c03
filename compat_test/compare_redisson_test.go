package compat_test

import (
	"maps"
	"strconv"
)

// redisson says what Redisson 4.7.0 makes of a step in a world at a time, with
// all its faults. What the real one does must be this and nothing else: so a
// fault explains no more than it does.
func redisson(w world, s step, now int64) (answer, world) {
	w = w.clone()
	a := redissonStep(&w, s, now)
	return a, w.tidy()
}

func redissonStep(w *world, s step, now int64) answer {
	c := w.settings()
	yes := func(b bool) answer { return answer{result: strconv.FormatBool(b)} }
	switch s.op {
	case trySetRate, setRate, updateRate:
		return redissonRate(w, s, now)
	case tryAcquire, availablePermits, release:
		switch {
		case s.op == release && s.permits < 0:
			return answer{err: badArgument}
		case s.op == release && s.permits == 0:
			return answer{}
		case !c.whole:
			return answer{err: notInitialized}
		case s.op == tryAcquire:
			return redissonAcquire(w, s.permits, now)
		case s.op == availablePermits:
			return redissonAvailable(w, now)
		}
		h := w.force()
		value, found := h.number()
		if !found {
			value = c.rate
		}
		h.set(min(c.rate, value+s.permits))
		redissonLife(w, now)
		return answer{}
	case getConfig:
		switch {
		case w.hash == nil:
			return answer{result: describe(config(overall, 0, 0))}
		case !c.whole:
			return answer{err: unreadable}
		}
		return configOf(*w)
	case isExists:
		return yes(w.hash != nil)
	case deletes:
		there := !w.nothing()
		*w = world{}
		return yes(there)
	case expire:
		ends := now + s.ttl.Milliseconds()
		there := !w.nothing()
		for _, e := range w.allEnds() {
			*e = ends
		}
		return yes(there)
	case clearExpire:
		ended := false
		for _, e := range w.allEnds() {
			ended = ended || *e != 0
			*e = 0
		}
		return yes(ended)
	case remainTimeToLive:
		return lifeOf(*w)
	case lose:
		w.lose(s.part)
		return answer{}
	}
	panic("no such operation: " + s.op)
}

// allEnds are the times to live of all five keys, there or not.
func (w *world) allEnds() []*int64 {
	p := &w.pairs
	return []*int64{&w.ends, &p[0].valueEnds, &p[0].recordsEnds, &p[1].valueEnds, &p[1].recordsEnds}
}

// set is SET of a number of Lua, which is no integer any more from 10^17 on
// (B14). It takes the time to live away.
func (h *holding) set(value int64) {
	h.value, h.valueEnds = strconv.FormatFloat(float64(value), 'g', 17, 64), 0
}

func redissonRate(w *world, s step, now int64) answer {
	if keep := s.limit.KeepAlive; keep != 0 && keep < s.limit.Interval {
		return answer{err: badArgument}
	}
	if s.op == updateRate && w.hash == nil {
		return answer{result: "false"}
	}
	before, typed := w.hash["type"]
	old := w.hash
	w.hash = fieldsOf(s)
	if s.op == trySetRate {
		maps.Copy(w.hash, old)
		if typed {
			return answer{result: "false"}
		}
	}
	keep := s.limit.KeepAlive.Milliseconds()
	if keep > 0 {
		w.ends = now + keep
	}
	h := &w.pairs[s.limit.Type]
	switch {
	case s.op == trySetRate:
	case s.op == setRate && !s.keepState: // a method of its own, which knows nothing of a former type
		*h = holding{}
	case typed && before != w.hash["type"]:
		w.pairs = [2]holding{}
	case !s.keepState:
		*h = holding{}
	default:
		h.records, _ = h.live(now, s.limit.Interval.Milliseconds())
		*w = w.tidy()
		h.set(max(0, double(s.limit.Rate)-sum(h.records)))
		redissonLife(w, now)
	}
	if s.op == setRate {
		return answer{}
	}
	return answer{result: "true"}
}

func redissonAcquire(w *world, n, now int64) answer {
	c, h := w.settings(), w.force()
	asked := double(n) // DECRBY gets the exact text
	if double(c.rate) < asked {
		return answer{err: exceedsRate}
	}
	value := c.rate
	if h.value == "" {
		h.set(value)
	} else if value = h.dropExpired(c, now, true); double(value) < asked {
		if len(h.records) == 0 {
			return answer{err: nilValue} // what was written stays
		}
		redissonLife(w, now)
		return answer{result: "false"}
	}
	h.records = append(h.records, grant{now, int64(uint32(asked))})
	h.value = decimal(value - n)
	redissonLife(w, now)
	return answer{result: "true"}
}

// dropExpired credits the value with the records that do not count any more,
// and removes them, unless they hold nothing.
func (h *holding) dropExpired(c settings, now int64, clamp bool) (value int64) {
	value, _ = h.number()
	live, old := h.live(now, c.interval)
	released := sum(old)
	if released == 0 {
		return value
	}
	h.records = live
	if len(live) == 0 {
		h.recordsEnds = 0
	}
	value = double(value + released)
	if clamp && value > c.rate {
		value = c.rate - sum(live)
	}
	h.set(value)
	return value
}

// double is a number as Lua has it: beyond 2^53 there are gaps (B14).
func double(n int64) int64 { return int64(float64(n)) }

func redissonAvailable(w *world, now int64) answer {
	c, h := w.settings(), w.force()
	if h.value == "" {
		h.set(c.rate)
		return answered(c.rate, nil)
	}
	return answered(h.dropExpired(c, now, false), nil)
}

// redissonLife is what its scripts end with: all live keepAliveTime longer, or
// value and permits as long as the hash.
func redissonLife(w *world, now int64) {
	c, h := w.settings(), w.force()
	if c.keep > 0 {
		w.ends = now + c.keep
	}
	if w.ends != 0 {
		h.valueEnds, h.recordsEnds = w.ends, w.ends
	}
}
