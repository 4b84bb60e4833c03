package compare

import "context"

// A lockstep is two limiters, one of Java and one of Go, that do the same steps
// at the same time.
type lockstep interface {
	// do has both sides do a step, in the same ms.
	do(ctx context.Context, s Step) (both, error)
	// level copies Go's state to Java's limiter, and returns it as Java sees it.
	level(ctx context.Context) (state, error)
}

// both are the outcomes of one step.
type both struct {
	java, golang outcome
	now          int64 // Unix ms
}

// A separateRun is a sequence on two names, one for each side.
type separateRun struct {
	checker
	lockstep
	java, golang state // before the next step

	// After a fault Java goes on with the state that it has made, so that what
	// follows from the fault is compared as well. When patience steps have
	// passed it gets Go's state.
	tainted  bool
	patience int

	counts // alike: steps with the same outcome on both sides
}

// separate plays a sequence and returns the first divergence, or nil.
func (c checker) separate(ctx context.Context, l lockstep, steps []Step, t *Tally) (*Divergence, error) {
	r := &separateRun{checker: c, lockstep: l}
	d, err := untilDivergence(ctx, steps, r.step)
	if d == nil && err == nil {
		t.add(len(steps), r.counts)
	}
	return d, err
}

// untilDivergence does steps until one fails or diverges.
func untilDivergence(
	ctx context.Context, steps []Step, do func(ctx context.Context, s *Step) (*Divergence, error),
) (*Divergence, error) {
	for i := range steps {
		d, err := do(ctx, &steps[i])
		if err != nil {
			return nil, err
		}
		if d != nil {
			d.At = i
			return d, nil
		}
	}
	return nil, nil
}

func (r *separateRun) step(ctx context.Context, s *Step) (*Divergence, error) {
	got, err := r.do(ctx, *s)
	if err != nil {
		return nil, err
	}
	d, names := r.check(*s, got)
	if d != nil {
		return d, nil
	}
	r.meet(names)
	if len(names) > 0 && !r.tainted {
		r.tainted, r.patience = true, s.Patience
	}
	r.java, r.golang = got.java.state, got.golang.state
	if r.patience--; r.tainted && (r.patience < 0 || r.java.beyondDoubles()) {
		r.java, err = r.level(ctx)
		r.tainted = false
	}
	return nil, err
}

// check checks what both sides did, and returns the faults of Java that were at
// work.
func (r *separateRun) check(s Step, got both) (*Divergence, []string) {
	onGo := observation{s, r.golang, got.now, got.golang}
	if d := r.goStep(onGo); d != nil {
		return d, nil
	}
	d, names := r.javaStep(observation{s, r.java, got.now, got.java}, r.tainted)
	if d != nil {
		return d, nil
	}
	in := differ(r.exact.of(onGo).withoutOwnTTL(), got.java.withoutOwnTTL())
	switch {
	case in == 0:
		r.alike++
	case !r.tainted && len(names) == 0:
		o := observation{s, r.golang, got.now, got.java}
		return o.diverges("Java and Go differ, and Java is right", in, got.golang), nil
	}
	return nil, names
}

// beyondDoubles reports whether the state holds numbers that Lua cannot count.
// What becomes of them is not specified.
func (st state) beyondDoubles() bool {
	if st.settings().rate > mostRate {
		return true
	}
	for _, p := range st.pairs {
		if n, _ := p.number(); n > mostRate || n < -mostRate {
			return true
		}
	}
	return false
}
