package compare

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/pause"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// The sides of a sequence, as indexes.
const (
	byJava = iota
	byGo
)

var sideNames = [...]string{byJava: "Java", byGo: "Go"}

// A worker plays one sequence at a time. It has a Redisson instance, and a
// Client of Go whose clock it sets.
type worker struct {
	*Runner
	sides  [2]side
	client *rratelimiter.Client
	clock  *atomic.Int64 // Unix ms
}

func (r *Runner) worker(n int) *worker {
	clock := &atomic.Int64{}
	now := func() time.Time { return time.UnixMilli(clock.Load()) }
	c := rratelimiter.New(r.rdb, rratelimiter.WithClock(now))
	golang := side{c.ID(), func(name string) Limiter { return Go(c.RateLimiter(name)) }}
	return &worker{r, [2]side{byJava: r.javas[n%len(r.javas)], byGo: golang}, c, clock}
}

func (w *worker) close() { _ = w.client.Close() } // nothing that failed here matters

// A game is a sequence on one limiter, in which both sides take turns, each by its own clock. Each
// side sees a state of its own: the two differ in the client's own pair.
type game struct {
	*worker
	name     string
	keys     [2][]string
	limiters [2]Limiter
	states   [2]state // before the next step
	ledger   ledger
}

// play plays a sequence and returns the first divergence, or nil. In steps it notes which of
// them were left to Go (see javaMay).
func (w *worker) play(ctx context.Context, steps []Step) (*Divergence, error) {
	m := &game{worker: w, name: redistest.Name(w.t), ledger: ledger{}}
	for i, side := range w.sides {
		keys := wire.KeysOf(m.name, side.id)
		m.keys[i], m.limiters[i] = keys.All(), side.limiter(m.name)
		if w.Spoil != nil {
			m.limiters[i] = w.Spoil(m.limiters[i], i == byJava)
		}
	}
	defer m.rdb.Unlink(context.WithoutCancel(ctx), slices.Concat(m.keys[:]...)...)
	for i := range steps {
		d, err := m.step(ctx, &steps[i])
		if d != nil {
			d.At = i
		}
		if d != nil || err != nil {
			return d, err
		}
	}
	return nil, nil
}

// step does a step on one side, and checks it.
func (m *game) step(ctx context.Context, s *Step) (*Divergence, error) {
	by := byGo
	if s.Java = s.Java && javaMay(*s, m.states[byJava]); s.Java {
		by = byJava
	}
	if err := pause.For(ctx, s.Pause); err != nil {
		return nil, err
	}
	m.requests.take(m.name)
	now := time.Now().UnixMilli()
	m.clock.Store(now)
	a := s.on(ctx, m.limiters[by])
	if sent, ok := m.requests.javaTime(m.name, *s); ok && by == byJava {
		now = sent
	}
	states, err := readStates(ctx, m.rdb, m.keys)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return nil, err
	}
	d := m.check(*s, by, a, states, now)
	if d != nil {
		d.Says = sideNames[by] + "'s turn: " + d.Says
	}
	m.states = states
	return d, nil
}

// javaMay reports whether Java may do a step. A step that harms the limit for all clients, as
// docs/faults.md says, is left to Go.
func javaMay(s Step, st state) bool {
	switch s.Op {
	case Release: // B1
		return false
	case TryAcquire: // B12, B13
		return s.Permits >= 1 && s.Permits <= mostPerRecord
	case SetRate, UpdateRate, TrySetRate: // B14, B11
		taken := st.pairs[s.Limit.Type].records.Sum()
		return s.Limit.Rate <= mostRate && (!s.KeepState || taken <= s.Limit.Rate)
	}
	return true
}

// check checks a step of one side by the states that both sides see. Go must do what is expected; Java
// must not harm others.
func (m *game) check(s Step, by int, a answer, after [2]state, now int64) *Divergence {
	seen := observation{s, m.states[by], now, outcome{a, after[by]}}
	if by == byGo {
		want := seen.expected()
		if !want.like(seen.got) {
			return seen.diverges(goDiffers, want)
		}
	}
	other := 1 - by
	if d := untouched(observation{s, m.states[other], now, outcome{a, after[other]}}); d != nil {
		return d
	}
	if d := balanced(seen); d != nil {
		return d
	}
	return m.ledger.check(seen, by)
}

// goDiffers is the text of a divergence of Go.
const goDiffers = "Go does not do what the model says"

// untouched expects that a step leaves the other side's own pair as it was. o is
// what the other side observes.
func untouched(o observation) *Divergence {
	want := o.got
	want.pairs[1] = o.before.pairs[1]
	if !want.like(o.got) {
		return o.diverges("it has touched a pair that is not its own", want)
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
	if valued && value+p.records.Sum() == c.rate {
		return nil
	}
	want := o.got
	want.inForce().value = decimal(c.rate - p.records.Sum())
	return o.diverges("value and records do not make up the rate", want)
}
