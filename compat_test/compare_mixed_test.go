package compat_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A shared limiter is played by both sides in turns, on one name, each by its
// own clock. In the worlds 0 is Java's view and 1 is Go's: they differ in the
// pair of the client's own.
type shared struct {
	*worker
	name     string
	keys     []string
	limiters [2]limiter
	views    [2]world
	ledger   ledger
}

const (
	byJava = iota
	byGo
)

func (w *worker) shared() *shared {
	m := &shared{worker: w, name: redistest.Name(GinkgoT()), ledger: ledger{}}
	for i, s := range []side{w.java, w.goes} {
		m.keys = append(m.keys, five(m.name, s.ID())...)
		m.limiters[i] = s.limiter(m.name)
	}
	return m
}

func (m *shared) close(ctx context.Context) { m.rdb.Unlink(ctx, m.keys...) }

// play has one side do a step.
func (m *shared) play(ctx context.Context, s step, by int) (got [2]outcome, now int64, err error) {
	pause(ctx, s.pause)
	m.saw.take(m.name)
	now = time.Now().UnixMilli()
	m.clock.Store(now)
	a := s.ask(ctx, m.limiters[by])
	if at, sent := m.saw.javaTime(m.name, s); sent && by == byJava {
		now = at
	}
	views, err := worlds(ctx, m.rdb, m.keys)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return got, now, err
	}
	for i := range got {
		got[i] = outcome{a, views[i]}
	}
	return got, now, nil
}

// harmless are the faults that do the limit no harm: Java may have them, and Go
// must do right in the world that they leave. What else Java does wrong, and
// the README says so, is left to Go (javaMay).
var harmless = slices.DeleteFunc(slices.Clone(faults), func(f fault) bool {
	return !slices.Contains([]string{"B3", "B6", "B7", "B8", "B9", "B10", "B11", "B22", "no config"}, f.name)
})

// javaMay reports whether Java can do a step without harm to the limit.
func javaMay(s step, w world) bool {
	switch s.op {
	case release: // B1
		return false
	case tryAcquire: // B12, B13
		return s.permits >= 1 && s.permits < 1<<32
	case setRate, updateRate, trySetRate: // B14, B11
		return s.limit.Rate <= 1<<53 && !(s.keepState && sum(w.pairs[s.limit.Type].records) > s.limit.Rate)
	}
	return true
}

// duet has both sides play a sequence in turns and answers where one of them
// does not do what it should, or nil.
func (j judge) duet(ctx context.Context, m *shared, steps []step, t *tally) (*disagreement, error) {
	seen := map[string]bool{}
	alike := 0
	for i, s := range steps {
		by := byGo
		if s.java = s.java && javaMay(s, m.views[byJava]); s.java {
			by = byJava
		}
		steps[i].java = s.java // to be printed as it was
		got, now, err := m.play(ctx, s, by)
		if err != nil {
			return nil, err
		}
		before := m.views
		d, names := j.turn(before[by], s, now, got[by], by)
		if d == nil {
			d = m.unseen(before[1-by], got[1-by], now)
		}
		if d == nil {
			d = balanced(before[by], got[by], now)
		}
		if d == nil {
			d = m.ledger.check(s, by, before[by], got[by], now)
		}
		if d != nil {
			d.at = i
			d.says = []string{"Java", "Go"}[by] + "'s turn: " + d.says
			return d, nil
		}
		for _, name := range names {
			seen[name] = true
		}
		if len(names) == 0 {
			alike++
		}
		m.views = [2]world{got[byJava].world, got[byGo].world}
	}
	t.add(len(steps), alike, seen)
	return nil, nil
}

// turn judges what one side has made of a step.
func (j judge) turn(before world, s step, now int64, got outcome, by int) (*disagreement, []string) {
	if by == byJava {
		return j.java(before, s, now, got, false, harmless)
	}
	want := j.model.of(before, s, now)
	if in := differ(want, got); in != 0 {
		return &disagreement{0, "Go does not do what the model says", in, before, now, want, got}, nil
	}
	return nil, nil
}

// unseen expects that nobody touches the pair of the other's own.
func (m *shared) unseen(before world, got outcome, now int64) *disagreement {
	want := got
	want.pairs[1] = before.pairs[1]
	if in := differ(want, got); in != 0 {
		return &disagreement{0, "it has touched a pair that is not its own", in, before, now, want, got}
	}
	return nil
}

// balanced expects that value and records of an OVERALL limiter make up the rate.
// (A pair of a client's own does so by the rate that it was made for, B9.)
func balanced(before world, got outcome, now int64) *disagreement {
	c, h := got.settings(), got.force()
	value, valued := h.number()
	if c.typ == 1 || !c.whole || valued && value+sum(h.records) == c.rate || !valued && len(h.records) == 0 {
		return nil
	}
	want := got
	want.force().value = decimal(c.rate - sum(h.records))
	return &disagreement{0, "value and records do not make up the rate", inValue, before, now, want, got}
}

// A ledger is what was granted and not given back, by the answers alone: of all
// in OVERALL, and of Go in PER_CLIENT. (Java's own pair goes by the rate that it
// was made for, B9.)
type ledger map[string][]grant

// check enters a step and expects that no window ever holds more than the rate.
// Where a rate is set without the permits that are taken, a new count begins.
func (l ledger) check(s step, by int, before world, got outcome, now int64) *disagreement {
	was, is := before.settings(), got.settings()
	name := "overall"
	if is.typ == 1 {
		name = fmt.Sprint("own", by)
	}
	if was.interval != is.interval {
		for name := range l {
			l.expire(name, now, was.interval) // what has come back by then does not count again
		}
	}
	switch {
	case got.err != "" || got.result == "false":
	case s.op == deletes, s.setsRate() && (!s.keepState || was.typ != is.typ || !was.whole):
		delete(l, "overall")
		delete(l, fmt.Sprint("own", by))
	case s.op == release && s.permits > 0:
		l.giveBack(name, s.permits, now, was.interval)
	case s.op == tryAcquire && !(is.typ == 1 && by == byJava):
		l[name] = append(l[name], grant{now, s.permits})
		l.expire(name, now, is.interval)
		if taken := sum(l[name]); taken > is.rate {
			want := got
			want.answer = answer{result: "false"}
			says := fmt.Sprintf("%d permits in a window: %v", taken, l[name])
			return &disagreement{0, says, inAnswer, before, now, want, got}
		}
	}
	return nil
}

func (l ledger) expire(name string, now, interval int64) {
	l[name], _ = holding{records: l[name]}.live(now, interval)
}

func (l ledger) giveBack(name string, permits, now, interval int64) {
	l.expire(name, now, interval)
	for i := len(l[name]) - 1; i >= 0 && permits > 0; i-- {
		part := min(permits, l[name][i].permits)
		l[name][i].permits -= part
		permits -= part
	}
}

// mixedGame plays on one name and counts in t.
func mixedGame(j judge, t *tally) game {
	return func(ctx context.Context, w *worker, steps []step) (*disagreement, error) {
		m := w.shared()
		defer m.close(context.WithoutCancel(ctx))
		return j.duet(ctx, m, steps, t)
	}
}
