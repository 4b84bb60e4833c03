package compare

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter"
)

// An Operation is what one step does with a limiter.
type Operation string

// The operations are called as in Java.
const (
	TrySetRate       Operation = "trySetRate"
	SetRate          Operation = "setRate"
	UpdateRate       Operation = "updateRate"
	TryAcquire       Operation = "tryAcquire"
	AvailablePermits Operation = "availablePermits"
	Release          Operation = "release"
	Delete           Operation = "delete"
	Expire           Operation = "expire"
	ClearExpire      Operation = "clearExpire"
)

// A Step is one operation with its arguments. Arguments that the operation does
// not take are zero.
type Step struct {
	Op        Operation
	Limit     rratelimiter.Config
	KeepState bool
	Permits   int64
	TTL       time.Duration
	Pause     time.Duration // before the step
	Java      bool          // the step is Java's, not Go's
}

// setsRate reports whether the step is one of the three that set a rate.
func (s Step) setsRate() bool { return s.Op == TrySetRate || s.Op == SetRate || s.Op == UpdateRate }

// String returns the step with the arguments of all operations.
func (s Step) String() string {
	side := sideNames[byGo]
	if s.Java {
		side = sideNames[byJava]
	}
	return fmt.Sprintf("after %v %s: %s(%v, keepState %v, %d permits, for %v)", s.Pause, side, s.Op, s.Limit,
		s.KeepState, s.Permits, s.TTL)
}

// list returns a sequence as text, one step a line.
func list(steps []Step) string {
	var b strings.Builder
	for i, s := range steps {
		fmt.Fprintf(&b, "%3d. %v\n", i+1, s)
	}
	return b.String()
}

// An observation is a step that one side did, with the state before it, the time
// that the side went by, and the outcome.
type observation struct {
	Step
	before state
	now    int64 // Unix ms
	got    outcome
}

// An outcome is the answer to a step and the state after it.
type outcome struct {
	answer
	state
}

// like reports whether two outcomes are the same to Java.
func (o outcome) like(other outcome) bool {
	return o.answer == other.answer && o.state.like(other.state)
}

func (o observation) diverges(says string, want outcome) *Divergence {
	return &Divergence{Says: says, want: want, observed: o}
}

// A Divergence is a step with an outcome that no known fault explains. A
// comparison must not find one.
type Divergence struct {
	At   int // index of the step
	Says string

	want     outcome
	observed observation
}

// String returns the divergence with the state before the step, and what was
// wanted and found after it.
func (d *Divergence) String() string {
	o := d.observed
	return fmt.Sprintf("step %d: %s\n  before: %+v\n  now:    %d\n  want:   %+v\n  got:    %+v",
		d.At+1, d.Says, o.before, o.now, d.want, o.got)
}

// An answer is the reply to a step, in one form for both languages: a result,
// or the kind of error.
type answer struct{ result, err string }

// answered returns the answer of a method that returned a result and an error.
func answered(result any, err error) answer {
	if err == nil {
		return answer{result: fmt.Sprint(result)}
	}
	return answer{err: ErrorKind(err)}
}

func yes(b bool) answer { return answer{result: strconv.FormatBool(b)} }

// on does the step on a limiter.
func (s Step) on(ctx context.Context, l Limiter) answer {
	switch s.Op {
	case TrySetRate:
		return answered(l.TrySetRate(ctx, s.Limit))
	case SetRate:
		return answered("", l.SetRate(ctx, s.Limit, s.KeepState))
	case UpdateRate:
		return answered(l.UpdateRate(ctx, s.Limit, s.KeepState))
	case TryAcquire:
		return answered(l.TryAcquire(ctx, s.Permits, 0))
	case AvailablePermits:
		return answered(l.AvailablePermits(ctx))
	case Release:
		return answered("", l.Release(ctx, s.Permits))
	case Delete:
		return answered(l.Delete(ctx))
	case Expire:
		return answered(l.Expire(ctx, s.TTL))
	case ClearExpire:
		return answered(l.ClearExpire(ctx))
	}
	panic("no such operation: " + s.Op)
}
