package rratelimiter

import (
	"context"
	"time"

	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/internal/host"
)

// An Observer receives the outcome of each call that takes permits: TryAcquire, Acquire,
// Allow, Reserve, TryReserve, Charge, and a Settle that charges more than was reserved.
// It is for metrics and traces (WithObserver). Package otellimit has one for
// OpenTelemetry.
type Observer interface {
	// Observe is called once for each call, in the goroutine of the caller, which waits
	// for it, and by many goroutines at once. ctx is that of the call.
	Observe(ctx context.Context, o Observation)
}

// An Observation is the outcome of one call.
type Observation struct {
	// Policy is the name of the Keyed that made the limiter, or that of OnRedis for the limit of a key
	// (Client.Redis), otherwise empty. It suits a metric attribute; Result.Name may differ for each user.
	Policy string

	// Permits is the number requested; for Settle, the number charged, for a Group the
	// largest one.
	Permits int64

	// Result is the result of the call. After an error only Name is set. For Allow,
	// TryReserve and Charge it has all numbers; otherwise it has Allowed, Name and
	// Degraded.
	Result Result

	// Err is the error of the call, nil if it has a Result.
	Err error

	// Start is when the call began, Took how long it lasted, and Queued the part of Took
	// spent waiting for permits, behind other callers or after a refusal.
	Start        time.Time
	Took, Queued time.Duration

	// Batch is the number of callers that shared the deciding request; 0 if Redis did not
	// decide.
	Batch int

	// Drift is the correction that this call made to the value in Redis: above 0 if it was too low. Another
	// client, such as an older Redisson, may leave it wrong. In a batch, one call reports the Drift.
	Drift int64

	// OtherRate reports, once for each Keyed and each RateLimiter with a rate (WithRate),
	// that a limiter keeps (WithKeepRate) a rate or interval other than the one given in
	// the program. Only calls that return numbers, such as Allow, can tell.
	OtherRate bool

	// RateReplaced reports that this call has replaced another rate, interval or keep alive by the one given
	// in the program (Keyed, WithRate). After a deploy that changes a rate, it is true once for each limiter;
	// if it is true again and again, programs with different rates share a name. In a batch, it is true for
	// one call. Taking a lease (WithLease) does not count as a call.
	RateReplaced bool
}

// WithObserver makes the Client call o.Observe after each call that takes permits (Observer). The default is
// no Observer.
func WithObserver(o Observer) Option {
	return option(func(s *settings) { s.observer = o })
}

// observation returns the Observation of a call.
func observation(
	v engine.Result, l *RateLimiter, wanted engine.Want, start time.Time, err error,
) Observation {
	o := Observation{
		Permits: wanted.Permits, Result: Result{Name: l.Name()}, Err: err, Start: start,
		Took: time.Since(start), Queued: v.Queued, Batch: v.Batch, Drift: v.Drift,
		RateReplaced: v.Replaced,
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

// observing returns the function that tells an observer of the calls of other packages, nil without one.
func observing(o Observer) func(ctx context.Context, call host.Call) {
	if o == nil {
		return nil
	}
	return func(ctx context.Context, c host.Call) {
		seen := Observation{
			Policy: c.Policy, Permits: c.Permits, Result: c.Result, Err: c.Err, Start: c.Start,
			Took: time.Since(c.Start),
		}
		if c.Err == nil && !c.Result.Degraded {
			seen.Batch = 1
		}
		o.Observe(ctx, seen)
	}
}

// observe tells the observer, if there is one, of a call to a Group.
func (g *Group) observe(
	ctx context.Context, results []engine.Result, wanted engine.Want, start time.Time, err error,
) {
	if o := g.client.observer; o != nil {
		o.Observe(ctx, g.observation(results, wanted, start, err))
	}
}

// observation returns the Observation of a call to a Group. It names the member that
// binds.
func (g *Group) observation(
	results []engine.Result, wanted engine.Want, start time.Time, err error,
) Observation {
	o := Observation{Permits: wanted.Permits, Err: err, Start: start, Took: time.Since(start)}
	binds := 0
	if err == nil {
		o.Batch = max(1, results[0].Batch)
		if o.Result, binds = g.result(results); !wanted.Numbers {
			o.Result = Result{Allowed: o.Result.Allowed, Degraded: o.Result.Degraded}
		}
	}
	for i, v := range results {
		o.Drift += v.Drift
		o.RateReplaced = o.RateReplaced || v.Replaced
		o.OtherRate = o.OtherRate || err == nil && g.members[i].givenRate.differs(v)
		o.Queued = max(o.Queued, v.Queued)
		if v.Degraded {
			o.Batch = 0
		}
	}
	if len(g.members) == 0 {
		return o // the Group is unusable
	}
	m := g.members[binds]
	if o.Result.Name = m.limiter.Name(); m.givenRate != nil {
		o.Policy = m.givenRate.name
	}
	return o
}

// Waiting returns the number of callers of this Client that are waiting for permits: in
// line, or before their first request.
func (c *Client) Waiting() int { return c.engine.Waiting() }
