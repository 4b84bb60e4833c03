package compare

import "fmt"

// An observation is a step that one side did: the state before it, the time by
// which the side judged, and the outcome.
type observation struct {
	Step
	before state
	now    int64 // Unix ms
	got    outcome
}

// diverges returns the divergence of an observation from what is wanted.
func (o observation) diverges(says string, in parts, want outcome) *Divergence {
	return &Divergence{Says: says, in: in, want: want, observed: o}
}

// A Divergence is a step of which the checker does not know the cause. It is
// what a comparison must not find.
type Divergence struct {
	At   int // index of the step
	Says string

	in       parts
	want     outcome
	observed observation
}

// String returns the divergence with the state before the step, and what was
// wanted and found after it.
func (d *Divergence) String() string {
	o := d.observed
	return fmt.Sprintf("step %d: %s, in %v\n  before: %v\n  now:    %d\n"+
		"  want:   %v\n          %v\n  got:    %v\n          %v",
		d.At+1, d.Says, d.in, o.before, o.now, d.want.answer, d.want.state, o.got.answer, o.got.state)
}
