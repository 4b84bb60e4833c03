package compare

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A simulation is a separate run without servers: each side does what a model
// says.
type simulation struct {
	javaModel, goModel model
	java, golang       state
	now                int64
	*rand.Rand
}

var _ lockstep = (*simulation)(nil)

func newSimulation(java, golang model, seed uint64) *simulation {
	return &simulation{
		javaModel: java, goModel: golang, now: 1_700_000_000_000, Rand: rand.New(rand.NewPCG(seed, 1)),
	}
}

func (m *simulation) do(_ context.Context, s Step) (got both, err error) {
	m.now += s.Pause.Milliseconds() + m.Int64N(4) // a call takes a few ms
	got.now = m.now
	got.java = m.javaModel.of(observation{Step: s, before: m.java, now: m.now})
	got.golang = m.goModel.of(observation{Step: s, before: m.golang, now: m.now})
	m.java, m.golang = got.java.state, got.golang.state
	return got, nil
}

func (m *simulation) level(context.Context) (state, error) {
	m.java = m.golang.clone().withoutOwnTTL()
	return m.java, nil
}

// simulate looks for a sequence that diverges, and shrinks it. Java does what
// the checker knows of Redisson.
func simulate(t *testing.T, c checker, golang model, many uint64, tally *Tally) *Finding {
	t.Helper()
	for seed := range many {
		play := func(steps []Step) *Divergence {
			d := redistest.Must(
				c.separate(t.Context(), newSimulation(c.redisson, golang, seed), steps, tally))(t)
			return d
		}
		steps := sequence(seed, false)
		if d := play(steps); d != nil {
			steps, d = shrink(steps, d, play)
			return &Finding{seed, steps, d}
		}
	}
	return nil
}

// within fails the test unless something was found, and in no more steps.
func within(t *testing.T, f *Finding, most int) {
	t.Helper()
	if f == nil {
		t.Fatal("nothing was found")
	}
	if len(f.Steps) > most {
		t.Errorf("%d steps, at most %d wanted:\n%v", len(f.Steps), most, f)
	}
}

func TestFaultsAccountForEachDifference(t *testing.T) {
	tally := &Tally{}
	if f := simulate(t, standard, exact, 2000, tally); f != nil {
		t.Error(f)
	}
	t.Log(tally)
}

func TestEachFaultIsNeeded(t *testing.T) {
	for i, f := range faults {
		if f.name == "B9" {
			continue // needs two clients of a limiter, as shared runs have
		}
		c := standard
		c.faults = slices.Delete(slices.Clone(faults), i, i+1)
		t.Run(f.name, func(t *testing.T) {
			within(t, simulate(t, c, exact, 20_000, &Tally{}), 6)
		})
	}
}

// A spoiled model of Redisson is wrong in a way that no fault explains. The
// checker takes it for Redisson's, so that the faults alone can find out.
var spoiled = []struct {
	redisson string
	spoil    func(s Step, before state, now int64, a *answer, after *state)
}{
	{"grants what is not there", func(s Step, _ state, _ int64, a *answer, _ *state) {
		if s.Op == TryAcquire && *a == yes(false) {
			*a = yes(true)
		}
	}},
	{"takes one permit more", func(s Step, _ state, _ int64, a *answer, after *state) {
		if p := after.inForce(); s.Op == TryAcquire && a.result == "true" {
			p.records[len(p.records)-1].permits++
		}
	}},
	{"loses a permit", func(s Step, _ state, _ int64, a *answer, after *state) {
		if p := after.inForce(); s.Op == TryAcquire && a.result == "true" {
			n, _ := p.number()
			p.value = decimal(n - 1)
		}
	}},
	{"releases one permit more", func(s Step, before state, now int64, _ *answer, after *state) {
		if s.Op == Release && s.Permits > 0 && before.settings().whole {
			s.Permits++
			_, *after = redisson(before, s, now)
		}
	}},
	{"releases nothing", func(s Step, before state, _ int64, _ *answer, after *state) {
		if s.Op == Release {
			*after = before
		}
	}},
	{"gives permits back 5 ms early", func(s Step, before state, now int64, a *answer, after *state) {
		if s.Op == TryAcquire {
			*a, *after = redisson(before, s, now+5)
			for i, r := range after.inForce().records {
				after.inForce().records[i].at = min(r.at, now)
			}
		}
	}},
	{"counts one permit less", func(s Step, _ state, _ int64, a *answer, _ *state) {
		if s.Op == AvailablePermits && a.result == "3" {
			a.result = "2"
		}
	}},
	{"keeps what was taken when a rate is set", func(s Step, before state, _ int64, _ *answer, after *state) {
		if s.Op == SetRate && after.hash != nil {
			after.pairs = before.pairs
		}
	}},
	{"forgets what was taken when it shall be kept", func(s Step, _ state, _ int64, _ *answer, after *state) {
		if s.KeepState && after.hash != nil {
			after.inForce().records = nil
		}
	}},
	{"updates what is not there", func(s Step, _ state, _ int64, a *answer, _ *state) {
		if s.Op == UpdateRate && a.err == "" {
			*a = yes(true)
		}
	}},
	{"never ends", func(s Step, _ state, _ int64, _ *answer, after *state) {
		if s.Op == TryAcquire {
			after.ends = 0
		}
	}},
	{"returns another error", func(s Step, _ state, _ int64, a *answer, _ *state) {
		if s.Op == TryAcquire && s.Permits > 0 && a.err == NotInitialized {
			a.err = ExceedsRate
		}
	}},
}

func TestNoFaultExcuses(t *testing.T) {
	for _, row := range spoiled {
		t.Run(row.redisson, func(t *testing.T) {
			c := standard
			c.redisson = func(before state, s Step, now int64) (answer, state) {
				a, after := redisson(before, s, now)
				row.spoil(s, before, now, &a, &after)
				return a, after.tidy()
			}
			within(t, simulate(t, c, exact, 2000, &Tally{}), 4)
		})
	}
}

func TestGoThatIsLateIsFound(t *testing.T) {
	late := func(before state, s Step, now int64) (answer, state) {
		if s.Op == AvailablePermits {
			now--
		}
		return exact(before, s, now)
	}
	f := simulate(t, standard, late, 2000, &Tally{})
	if within(t, f, 6); f.Says != goDiffers {
		t.Error(f)
	}
}
