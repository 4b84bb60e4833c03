package compare

import (
	"strconv"
	"time"

	"github.com/redisson-go/rratelimiter"
)

// A model computes what comes of a step: from the state before it, and at a
// time in Unix ms.
type model func(before state, s Step, now int64) (answer, state)

// modelOf returns the model that a function computes by changing the state.
func modelOf(do func(st *state, s Step, now int64) answer) model {
	return func(before state, s Step, now int64) (answer, state) {
		st := before.clone()
		a := do(&st, s, now)
		return a, st.tidy()
	}
}

// of returns the outcome that the model computes for what a side did.
func (m model) of(o observation) (want outcome) {
	want.answer, want.state = m(o.before, o.Step, o.now)
	return want
}

// inBothModels does the operations that Go and Redisson do alike.
func inBothModels(st *state, s Step) answer {
	switch s.Op {
	case IsExists:
		return yes(st.hash != nil)
	case Delete:
		existed := !st.nothing()
		*st = state{}
		return yes(existed)
	case RemainTimeToLive:
		return ttlOf(*st)
	case Lose:
		st.lose(s.Lost)
		return answer{}
	}
	panic("no such operation: " + s.Op)
}

// ttlOf returns the answer to remainTimeToLive.
func ttlOf(st state) answer {
	switch {
	case st.hash == nil:
		return answer{result: coarse(-2)}
	case st.ends == 0:
		return answer{result: coarse(-1)}
	}
	return answer{result: coarse(1)}
}

// configOf returns the answer to getConfig where a rate is set.
func configOf(st state) answer {
	c := st.settings()
	return answer{result: describe(rratelimiter.Config{
		Type:     rratelimiter.RateType(c.typ),
		Rate:     c.rate,
		Interval: time.Duration(c.interval) * time.Millisecond,
	})}
}

// fieldsOf returns the fields that both sides write for a rate.
func fieldsOf(s Step) map[string]string {
	return map[string]string{
		"rate": decimal(s.Limit.Rate), "interval": decimal(s.Limit.Interval.Milliseconds()),
		"type": decimal(int64(s.Limit.Type)), "keepAliveTime": decimal(s.Limit.KeepAlive.Milliseconds()),
	}
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
