package compat_test

import (
	"slices"
	"strconv"
	"time"
)

// model is a limiter as it should be: a sliding log, exact to the ms, in which
// none of Redisson's faults is left. It says what comes of a step in a world at
// a time. What is left is always rate - what the records that count hold; the
// value string is written and never believed.
func model(w world, s step, now int64) (answer, world) {
	w = w.clone()
	a := modelStep(&w, s, now)
	return a, w.tidy()
}

func modelStep(w *world, s step, now int64) answer {
	c := w.settings()
	yes := func(b bool) answer { return answer{result: strconv.FormatBool(b)} }
	switch s.op {
	case trySetRate, setRate, updateRate:
		return modelRate(w, s, now)
	case tryAcquire, release:
		switch {
		case s.permits == 0 && s.op == release:
			return answer{}
		case s.permits < 1 || s.permits > 1<<40:
			return answer{err: badArgument}
		case !c.whole:
			return answer{err: notInitialized}
		case s.op == release:
			modelRelease(w, s.permits, now)
			return answer{}
		case s.permits > c.rate:
			return answer{err: exceedsRate}
		}
		return yes(modelAcquire(w, s.permits, now))
	case availablePermits:
		if !c.whole {
			return answer{err: notInitialized}
		}
		live, _ := w.force().live(now, c.interval)
		if c.interval <= 0 {
			live = nil
		}
		return answered(max(0, min(c.rate-sum(live), c.rate)), nil)
	case getConfig:
		if !c.whole {
			return answer{err: notInitialized}
		}
		return configOf(*w)
	case isExists:
		return yes(w.hash != nil)
	case deletes:
		there := !w.nothing()
		*w = world{}
		return yes(there)
	case expire:
		if w.hash == nil {
			return yes(false)
		}
		h := w.force()
		w.ends = now + s.ttl.Milliseconds()
		h.valueEnds, h.recordsEnds = w.ends, w.ends
		return yes(true)
	case clearExpire:
		if w.ends == 0 {
			return yes(false)
		}
		h := w.force()
		w.ends, h.valueEnds, h.recordsEnds = 0, 0, 0
		c.keep = 0
		modelLife(w, c, now)
		return yes(true)
	case remainTimeToLive:
		return lifeOf(*w)
	case lose:
		w.lose(s.part)
		return answer{}
	}
	panic("no such operation: " + s.op)
}

func modelRate(w *world, s step, now int64) answer {
	c := w.settings()
	r := s.limit
	switch {
	case r.Rate < 1 || r.Rate > 1<<53 || r.Interval < time.Millisecond,
		r.KeepAlive != 0 && r.KeepAlive < r.Interval:
		return answer{err: badArgument}
	case s.op == trySetRate && c.whole, s.op == updateRate && !c.whole:
		return answer{result: "false"}
	}
	_, typed := w.hash["type"]
	same := s.op != trySetRate && s.keepState && typed && c.typ == int(r.Type)
	kept := w.pairs[c.typ]
	*w = world{hash: fieldsOf(s)}
	c = w.settings()
	if same {
		kept.records, _ = kept.live(now, c.interval)
		kept.value, kept.valueEnds, kept.recordsEnds = decimal(c.rate-sum(kept.records)), 0, 0
		w.pairs[c.typ] = kept
	}
	if s.op == trySetRate {
		if c.keep > 0 {
			w.ends = now + c.lives()
		}
	} else {
		modelLife(w, c, now)
	}
	if s.op == setRate {
		return answer{}
	}
	return answer{result: "true"}
}

func modelAcquire(w *world, n, now int64) bool {
	c, h := w.settings(), w.force()
	left := modelDrop(w, now)
	granted := n <= left
	for granted && n > 0 && c.interval > 0 { // a record holds 32 bits
		part := min(n, 1<<32-1)
		h.records = append(h.records, grant{now, part})
		left, n = left-part, n-part
	}
	h.value = decimal(left)
	modelLife(w, c, now)
	return granted
}

func modelRelease(w *world, n, now int64) {
	c, h := w.settings(), w.force()
	left := modelDrop(w, now)
	for i := len(h.records) - 1; i >= 0 && n > 0; i-- {
		part := min(n, h.records[i].permits)
		h.records[i].permits -= part
		left, n = left+part, n-part
	}
	h.records = slices.DeleteFunc(h.records, func(g grant) bool { return g.permits == 0 })
	h.value = decimal(left)
	modelLife(w, c, now)
}

// modelDrop removes the records that do not count any more from the pair in
// force, and returns what is left.
func modelDrop(w *world, now int64) (left int64) {
	c, h := w.settings(), w.force()
	if h.records, _ = h.live(now, c.interval); c.interval <= 0 { // what is taken is back at once (B22)
		h.records = nil
	}
	*w = w.tidy()
	return c.rate - sum(h.records)
}

// modelLife makes value and permits live as long as the hash, or a pair of a
// client's own as long as it is of use.
func modelLife(w *world, c settings, now int64) {
	h := &w.pairs[c.typ]
	switch {
	case c.keep > 0:
		w.ends = now + c.lives()
		h.valueEnds, h.recordsEnds = w.ends, w.ends
	case w.ends != 0:
		h.valueEnds, h.recordsEnds = w.ends, w.ends
	case c.typ == 1:
		h.valueEnds = now + 2*max(0, c.interval) + time.Minute.Milliseconds()
		h.recordsEnds = h.valueEnds
	}
}

// lives is for how long Go keeps alive: a second past the interval at least.
func (s settings) lives() int64 { return max(s.keep, s.interval+1000) }

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// fieldsOf are the fields that both sides write for a rate.
func fieldsOf(s step) map[string]string {
	return map[string]string{
		"rate": decimal(s.limit.Rate), "interval": decimal(s.limit.Interval.Milliseconds()),
		"type": decimal(int64(s.limit.Type)), "keepAliveTime": decimal(s.limit.KeepAlive.Milliseconds()),
	}
}

// configOf is the answer to getConfig where a rate is set.
func configOf(w world) answer {
	c := w.settings()
	r := config(overall, c.rate, time.Duration(c.interval)*time.Millisecond)
	if c.typ == 1 {
		r.Type = perClient
	}
	return answer{result: describe(r)}
}

// lifeOf is the answer to remainTimeToLive.
func lifeOf(w world) answer {
	switch {
	case w.hash == nil:
		return answer{result: coarse(-2)}
	case w.ends == 0:
		return answer{result: coarse(-1)}
	}
	return answer{result: coarse(1)}
}

// lose takes a part away, of the pair in force.
func (w *world) lose(part string) {
	h := w.force()
	switch part {
	case "hash":
		w.hash = nil
	case "value":
		h.value = ""
	case "permits":
		h.records = nil
	default:
		delete(w.hash, part)
	}
}
