package rratelimiter

import (
	"context"
	"time"

	"github.com/redisson-go/rratelimiter/internal/engine"
)

// An Observer is told of each call of TryAcquire, Acquire and Allow of a Client when it
// has its outcome: for metrics and traces (WithObserver). Package otellimit has one for
// OpenTelemetry.
type Observer interface {
	// Observe is called once for each call, in the goroutine of the caller, which waits
	// for it. It is called by many goroutines at once. ctx is that of the call.
	Observe(ctx context.Context, o Observation)
}

// An Observation is the outcome of one call.
type Observation struct {
	// Policy is the name of the Keyed that the limiter is from, empty for others. It
	// is fit for an attribute of a metric; Result.Name may be a name for each user.
	Policy string

	// Permits is how many were asked for.
	Permits int64

	// Result is what the call came to, zero after an error but for Name. Of Allow it has
	// all numbers. Of TryAcquire and Acquire it has Allowed, Name and Degraded.
	Result Result

	// Err is the error of the call, nil if it has a Result.
	Err error

	// Start is when the call began, Took how long it lasted, and Queued how much of that
	// it waited for permits, because others stood in line or it was refused; 0 if it did
	// not wait.
	Start        time.Time
	Took, Queued time.Duration

	// Batch is how many callers shared the request that decided, 1 if it was alone; 0
	// where Redis did not decide.
	Batch int

	// Drift is by how many permits the value in Redis was wrong that the request of this
	// call has put right: above 0 if there were too few. Others, such as an older
	// Redisson, may leave it wrong. One call of a batch has it.
	Drift int64

	// OtherRate says, once for each Keyed and each RateLimiter with a rate (WithRate), that a
	// limiter has another rate or interval than the program gives it, and keeps that
	// (WithKeepRate). Of calls with numbers, such as Allow.
	OtherRate bool
}

// WithObserver has o told of each call of TryAcquire, Acquire and Allow. Without it
// nothing is measured. The default is none.
func WithObserver(o Observer) Option {
	return option(func(s *settings) { s.observer = o })
}

// observation returns what the observer is told of a call.
func observation(
	v engine.Verdict, l *RateLimiter, wanted engine.Want, start time.Time, err error,
) Observation {
	o := Observation{
		Permits: wanted.Permits, Result: Result{Name: l.Name()}, Err: err, Start: start,
		Took: time.Since(start), Queued: v.Queued, Batch: v.Batch, Drift: v.Drift,
	}
	if l.givenRate != nil {
		o.Policy, o.OtherRate = l.givenRate.name, err == nil && l.givenRate.differs(v)
	}
	switch {
	case err != nil:
	case wanted.Numbers:
		o.Result = resultOf(v, l.Name(), l.givenRate)
	default:
		o.Result.Allowed, o.Result.Degraded = v.OK, v.Degraded
	}
	return o
}

// observation returns what the observer is told of a call to a Group. It is of the limiter
// that binds.
func (g *Group) observation(
	verdicts []engine.Verdict, wanted engine.Want, start time.Time, err error,
) Observation {
	o := Observation{Permits: wanted.Permits, Err: err, Start: start, Took: time.Since(start)}
	binds := 0
	if err == nil {
		o.Batch = 1
		if o.Result, binds = g.result(verdicts); !wanted.Numbers {
			o.Result = Result{Allowed: o.Result.Allowed, Degraded: o.Result.Degraded}
		}
	}
	for i, v := range verdicts {
		o.Drift += v.Drift
		o.OtherRate = o.OtherRate || err == nil && g.members[i].givenRate.differs(v)
		o.Queued = max(o.Queued, v.Queued)
		if v.Degraded {
			o.Batch = 0
		}
	}
	if len(g.members) == 0 {
		return o // an error
	}
	m := g.members[binds]
	if o.Result.Name = m.limiter.Name(); m.givenRate != nil {
		o.Policy = m.givenRate.name
	}
	return o
}

// Waiting returns how many callers of this Client wait for permits now: those in line
// and those that no request has asked for yet.
func (c *Client) Waiting() int { return c.engine.Waiting() }
