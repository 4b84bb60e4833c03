package compat_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
)

// A stage is where both sides play a sequence in lockstep, each on a limiter
// of its own.
type stage interface {
	// play has both do a step at the same time.
	play(ctx context.Context, s step) (java, goes outcome, now int64, err error)
	// level gives Java the world that Go has, and returns it as Java sees it.
	level(ctx context.Context) (java world, err error)
}

// A rule says what comes of a step in a world at a time.
type rule func(w world, s step, now int64) (answer, world)

func (r rule) of(w world, s step, now int64) (o outcome) {
	o.answer, o.world = r(w, s, now)
	return o
}

// A judge knows what both sides should do and may do.
type judge struct {
	model, redisson rule
	faults          []fault
}

var theJudge = judge{model, redisson, faults}

// A disagreement is what a comparison must not find.
type disagreement struct {
	at        int // the step
	says      string
	in        aspect
	before    world
	now       int64
	want, got outcome
}

func (d *disagreement) String() string {
	return fmt.Sprintf("step %d: %s, in %v\n  before: %v\n  now:    %d\n  want:   %v\n          %v\n  got:    %v\n          %v",
		d.at+1, d.says, d.in, d.before, d.now, d.want.answer, d.want.world, d.got.answer, d.got.world)
}

// twin has both sides play a sequence and answers where they disagree, or nil.
// Go must always do what the model says. Java must do that, too, but for what a
// fault explains. After a fault it goes on with what it has made of its world,
// to meet what follows from that, before it is given Go's.
func (j judge) twin(ctx context.Context, st stage, steps []step, t *tally) (*disagreement, error) {
	var javas, goes world
	seen := map[string]bool{}
	tainted, patience, alike := false, 0, 0
	for i, s := range steps {
		java, g, now, err := st.play(ctx, s)
		if err != nil {
			return nil, err
		}
		right := j.model.of(goes, s, now)
		if in := differ(right, g); in != 0 {
			return &disagreement{i, "Go does not do what the model says", in, goes, now, right, g}, nil
		}
		d, names := j.java(javas, s, now, java, tainted, j.faults)
		if d != nil {
			d.at = i
			return d, nil
		}
		if in := differ(outcome{right.answer, right.withoutOwnLife()}, outcome{java.answer, java.withoutOwnLife()}); in == 0 {
			alike++
		} else if !tainted && len(names) == 0 {
			return &disagreement{i, "Java and Go differ, and Java is right", in, goes, now, g, java}, nil
		}
		for _, name := range names {
			seen[name] = true
		}
		if len(names) > 0 && !tainted {
			tainted, patience = true, s.patience
		}
		javas, goes = java.world, g.world
		if patience--; tainted && (patience < 0 || beyondDoubles(javas)) {
			if javas, err = st.level(ctx); err != nil {
				return nil, err
			}
			tainted = false
		}
	}
	t.add(len(steps), alike, seen)
	return nil, nil
}

// java judges what Java has made of a step, and names the faults that were at work.
func (j judge) java(before world, s step, now int64, got outcome, tainted bool, among []fault) (*disagreement, []string) {
	known := j.redisson.of(before, s, now)
	if in := differ(known, got); in != 0 {
		return &disagreement{0, "Java does what is not known of it", in, before, now, known, got}, nil
	}
	want := j.model.of(before, s, now)
	names, left := explain(newDispute(s, before, now, want, got, tainted), among)
	if left != 0 {
		says := fmt.Sprintf("Java does what no fault explains (%s would explain the rest)", strings.Join(names, " and "))
		return &disagreement{0, says, left, before, now, want, got}, nil
	}
	return nil, names
}

// beyondDoubles reports whether a world holds numbers that Lua cannot count, of
// which nobody says what becomes.
func beyondDoubles(w world) bool {
	if w.settings().rate > 1<<53 {
		return true
	}
	for _, h := range w.pairs {
		if n, _ := h.number(); n > 1<<53 || n < -1<<53 {
			return true
		}
	}
	return false
}

// paper is a stage without servers: each side does what its rule says.
type paper struct {
	java, goes   rule
	javas, gones world
	now          int64
	*rand.Rand
}

func newPaper(java, goes rule, seed uint64) *paper {
	return &paper{java: java, goes: goes, now: 1_700_000_000_000, Rand: rand.New(rand.NewPCG(seed, 1))}
}

func (p *paper) play(_ context.Context, s step) (java, goes outcome, now int64, err error) {
	p.now += s.pause.Milliseconds() + p.Int64N(4)
	java, goes = p.java.of(p.javas, s, p.now), p.goes.of(p.gones, s, p.now)
	p.javas, p.gones = java.world, goes.world
	return java, goes, p.now, nil
}

func (p *paper) level(context.Context) (world, error) {
	p.javas = p.gones.clone().withoutOwnLife()
	return p.javas, nil
}
