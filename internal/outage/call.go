package outage

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A call is one under a policy: to one limiter, or to those of a Group, which live
// on one server and so have one circuit.
type call struct {
	guard    *Guard
	limiters []*engine.Limiter
	permits  []int64 // by limiter
	policy   Policy

	askRedis func(wanted engine.Want) ([]engine.Verdict, error) // asks Redis
}

// run asks Redis, and falls back when Redis has failed.
func (c call) run(ctx context.Context, wanted engine.Want) ([]engine.Verdict, error) {
	first := c.limiters[0]
	if c.guard.Off() {
		return c.sameForAll(engine.Verdict{OK: true, Degraded: true}), nil
	}
	if err := c.policy.Validate(engine.Invalid); err != nil {
		return nil, first.Named(err)
	}
	end, timed := time.Now().Add(wanted.Timeout), wanted.Timed()
	for circuit := c.guard.circuit(first); ; {
		var v []engine.Verdict
		why := circuit.openCause()
		err := why
		if why == nil {
			v, err = c.ask(ctx, wanted)
			if ctx.Err() != nil || !Failed(err) {
				return v, err
			}
		}
		spend(&wanted, end)
		v, back, e := c.fallBack(ctx, wanted, err)
		if !back {
			if e == why && e != nil {
				e = engine.NotAsked(why)
			}
			return v, first.Named(e)
		}
		if spend(&wanted, end); timed && !wanted.Waits() {
			// It has waited for permits for as long as it may.
			return c.sameForAll(engine.Verdict{Degraded: true}), nil
		}
	}
}

// spend leaves what is left of the timeout until end.
func spend(wanted *engine.Want, end time.Time) {
	if wanted.Timed() {
		wanted.Timeout = max(0, time.Until(end))
	}
}

// alike returns the same verdict for each member.
func (c call) sameForAll(v engine.Verdict) []engine.Verdict {
	return slices.Repeat([]engine.Verdict{v}, len(c.limiters))
}

// ask asks Redis, and notes what that says about its health. If Redis is just back, it
// takes no more than the share of the Client, for others may still grant theirs.
func (c call) ask(ctx context.Context, wanted engine.Want) ([]engine.Verdict, error) {
	began, first := time.Now(), wanted
	var charged []*localLimiter // the shares that the permits were taken from
	if locals := c.locals(); locals != nil && c.policy.Fallback == Local {
		v, back, err := c.fromShares(ctx, locals, wanted, false)
		if !back {
			return v, err
		}
		if engine.Granted(v) {
			charged = locals
		}
		spend(&wanted, began.Add(first.Timeout))
	}
	if wanted.Budget = c.policy.budgetFor(ctx); first.Timed() && !wanted.Waits() {
		wanted.Budget = min(wanted.Budget, engine.Grace)
	}
	v, err := c.askRedis(wanted)
	ok := err == nil && engine.Granted(v)
	for i, limiter := range c.limiters {
		if charged != nil && !ok {
			charged[i].uncharge(c.permits[i])
		}
		if err == nil {
			c.guard.learn(limiter, c.permits[i], ok && charged == nil, c.policy.Fallback)
		}
	}
	if first.Budget = wanted.Budget; ctx.Err() == nil || !Failed(err) {
		c.noteOutcome(first, began, err)
	}
	return v, err
}

// noteOutcome notes what a call that began at a time says about the health of Redis.
func (c call) noteOutcome(wanted engine.Want, began time.Time, err error) {
	// To a caller that stood in line a reply was due for a budget only.
	took := time.Since(began)
	// A timeout that ended the call before the budget was spent says nothing about Redis.
	impatient := wanted.Timed() && took >= wanted.Timeout && took < wanted.Budget
	switch circuit := c.guard.circuit(c.limiters[0]); {
	case !Failed(err) || redisx.Final(err): // a reply costs no time, and may be about this limiter alone
		circuit.noteReply()
	case wanted.Budget >= leastBudget && !impatient:
		circuit.noteFailure(c.limiters[0], time.Now().Add(-min(took, wanted.Budget)), err)
	}
}

// fallBack returns what a call gets for which Redis has failed because of err. back
// says that it waited for permits, and that Redis is well again.
func (c call) fallBack(ctx context.Context, wanted engine.Want, err error) (
	v []engine.Verdict, back bool, _ error,
) {
	g, fallback := c.guard, c.policy.Fallback
	if fallback == Deny && wanted.Timeout == engine.Forever {
		fallback = ReturnError
	}
	switch fallback {
	case Allow, Deny:
		g.fallbackDecided.Add(1)
		v, err = c.sameForAll(engine.Verdict{OK: fallback == Allow, Degraded: true}), nil
		for i, limiter := range c.limiters {
			v[i].Limit = g.rate(limiter)
			if fallback == Deny {
				v[i].Wait = slowestProbe.Microseconds()
			}
		}
	case Local:
		for _, limiter := range c.limiters {
			g.assumeGiven(limiter)
		}
		if locals := c.locals(); locals != nil {
			v, back, err = c.fromShares(ctx, locals, wanted, true)
		}
	}
	return v, back, err
}

// locals returns what is known of the limiters, nil if the rate of one is not.
func (c call) locals() []*localLimiter {
	locals := make([]*localLimiter, len(c.limiters))
	for i, limiter := range c.limiters {
		if locals[i] = c.guard.withKnownRate(limiter); locals[i] == nil {
			return nil
		}
	}
	return locals
}

// fromShares is awaitShares, and counts the calls that the shares have decided.
func (c call) fromShares(
	ctx context.Context, locals []*localLimiter, wanted engine.Want, away bool,
) (v []engine.Verdict, back bool, err error) {
	v, back, err = c.awaitShares(ctx, locals, wanted, away)
	if err == nil && !back {
		c.guard.fallbackDecided.Add(1)
	}
	return v, back, err
}

// awaitShares takes permits from the shares of this Client, waiting for them as long as the
// caller does. away says that Redis has failed for this caller: then they are granted. back
// says that Redis is to be asked. If that has just come back, the permits are taken from the
// shares before, and the verdicts say so.
func (c call) awaitShares(
	ctx context.Context, locals []*localLimiter, wanted engine.Want, away bool,
) (v []engine.Verdict, back bool, err error) {
	circuit, end := locals[0].circuit, time.Now().Add(wanted.Timeout)
	for failed := away; ; failed = false {
		ungranted := failed || circuit.openCause() != nil
		if !ungranted && (away || !slices.ContainsFunc(locals, (*localLimiter).keepsToShare)) {
			return nil, true, nil
		}
		v, err = c.takeShares(locals, ungranted)
		ok := err == nil && engine.Granted(v)
		if ok && ungranted {
			circuit.startProbing(c.limiters[0])
		}
		if spend(&wanted, end); ok || err != nil || !wanted.Waits() {
			return v, ok && !ungranted, err
		}
		pause := time.Duration(0)
		for _, one := range v {
			pause = max(pause, wire.Microseconds(one.Wait))
		}
		if err = c.guard.engine.Pause(ctx, min(pause, slowestProbe, wanted.Timeout)); err != nil {
			return nil, false, err
		}
	}
}

// takeShares takes permits from all shares or from none; own says that Redis does not know
// of them.
func (c call) takeShares(locals []*localLimiter, unbooked bool) ([]engine.Verdict, error) {
	// Locked in one order, so that two calls never wait for one another.
	ordered := slices.SortedFunc(slices.Values(locals), func(a, b *localLimiter) int {
		return strings.Compare(a.limiter.Hash, b.limiter.Hash)
	})
	for _, l := range ordered {
		l.mu.Lock()
	}
	defer func() {
		for _, l := range ordered {
			l.mu.Unlock()
		}
	}()
	now := time.Now()
	v := make([]engine.Verdict, len(locals))
	for i, l := range locals {
		l.usedAt = now
		if unbooked && c.permits[i] > l.rate {
			return nil, c.limiters[i].Named(engine.Exceeds(c.permits[i], l.rate))
		}
		v[i] = l.judge(now, c.permits[i])
	}
	if engine.Granted(v) {
		for i, l := range locals {
			v[i] = l.grant(now, c.permits[i], unbooked)
		}
	}
	return v, nil
}
