package compare

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// The sides of a shared run, as indexes.
const (
	byJava = iota
	byGo
)

var sideNames = [...]string{byJava: "Java", byGo: "Go"}

// A sharedLimiter is one limiter on which both sides take turns, each by its
// own clock. The states are those that Java and Go see: they differ in the
// client's own pair.
type sharedLimiter struct {
	*worker
	name     string
	keys     []string
	limiters [2]Limiter
	states   [2]state // before the next step
}

func (w *worker) sharedLimiter() *sharedLimiter {
	m := &sharedLimiter{worker: w, name: redistest.Name(w.t)}
	for i, side := range []Side{byJava: w.Java, byGo: w.Go} {
		m.keys = append(m.keys, keysOf(m.name, side.ID)...)
		m.limiters[i] = side.Limiter(m.name)
	}
	return m
}

// close removes what the sequence has left.
func (m *sharedLimiter) close(ctx context.Context) { m.rdb.Unlink(ctx, m.keys...) }

// do has one side do a step, and returns the outcome as each side sees it.
func (m *sharedLimiter) do(ctx context.Context, s Step, by int) (got [2]outcome, now int64, err error) {
	pause(ctx, s.Pause)
	m.requests.take(m.name)
	now = time.Now().UnixMilli()
	m.clock.Store(now)
	a := s.on(ctx, m.limiters[by])
	if sent, ok := m.requests.javaTime(m.name, s); ok && by == byJava {
		now = sent
	}
	states, err := readStates(ctx, m.rdb, m.keys)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return got, now, err
	}
	for i := range got {
		got[i] = outcome{a, states[i]}
	}
	return got, now, nil
}

// A sharedRun is a sequence on one name.
type sharedRun struct {
	checker
	*sharedLimiter
	ledger ledger

	counts // alike: steps without a fault
}

// shared plays a sequence and returns the first divergence, or nil. In steps it
// notes which of them were left to Go (see javaMay).
func (c checker) shared(ctx context.Context, m *sharedLimiter, steps []Step, t *Tally) (*Divergence, error) {
	r := &sharedRun{checker: c, sharedLimiter: m, ledger: ledger{}}
	r.faults = slices.DeleteFunc(slices.Clone(c.faults), func(f fault) bool { return !f.harmless })
	d, err := untilDivergence(ctx, steps, r.step)
	if d == nil && err == nil {
		t.add(len(steps), r.counts)
	}
	return d, err
}

func (r *sharedRun) step(ctx context.Context, s *Step) (*Divergence, error) {
	by := byGo
	if s.Java = s.Java && javaMay(*s, r.states[byJava]); s.Java {
		by = byJava
	}
	got, now, err := r.do(ctx, *s, by)
	if err != nil {
		return nil, err
	}
	d, names := r.check(*s, by, got, now)
	if d != nil {
		d.Says = sideNames[by] + "'s turn: " + d.Says
		return d, nil
	}
	r.meet(names)
	if len(names) == 0 {
		r.alike++
	}
	r.states = [2]state{got[byJava].state, got[byGo].state}
	return nil, nil
}

// check checks a step, and returns the faults of Java that were at work.
func (r *sharedRun) check(s Step, by int, got [2]outcome, now int64) (d *Divergence, names []string) {
	own := observation{s, r.states[by], now, got[by]}
	if by == byJava {
		d, names = r.javaStep(own, false)
	} else {
		d = r.goStep(own)
	}
	if d == nil {
		d = untouched(observation{s, r.states[1-by], now, got[1-by]})
	}
	if d == nil {
		d = balanced(own)
	}
	if d == nil {
		d = r.ledger.check(own, by)
	}
	return d, names
}

// untouched expects that the own pair of the side whose turn it is not stays as
// it was. The observation is as that side sees it.
func untouched(o observation) *Divergence {
	want := o.got
	want.pairs[1] = o.before.pairs[1]
	if in := differ(want, o.got); in != 0 {
		return o.diverges("it has touched a pair that is not its own", in, want)
	}
	return nil
}

// balanced expects that value and records of an OVERALL limiter add up to the
// rate. In a client's own pair they add up to the rate for which it was created
// (B9).
func balanced(o observation) *Divergence {
	c, p := o.got.settings(), o.got.inForce()
	value, valued := p.number()
	if c.typ == 1 || !c.whole || !valued && len(p.records) == 0 {
		return nil
	}
	if valued && value+sum(p.records) == c.rate {
		return nil
	}
	want := o.got
	want.inForce().value = decimal(c.rate - sum(p.records))
	return o.diverges("value and records do not make up the rate", inValue, want)
}
