package outage

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/queue"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/request"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A call is one call under a policy: to one limiter, or to the members of a Group. Its
// members live on one server, and so have one circuit.
type call struct {
	guard    *Guard
	limiters []*engine.Limiter
	permits  []int64 // by limiter
	policy   Policy

	askRedis func(wanted engine.Want) ([]engine.Result, error) // the call without a policy
}

// run asks Redis, and falls back when Redis has failed. It tries again if Redis came back
// while the call waited for its share.
func (c call) run(ctx context.Context, wanted engine.Want) ([]engine.Result, error) {
	first := c.limiters[0]
	if c.guard.Off() {
		return c.sameForAll(engine.Result{OK: true, Degraded: true}), nil
	}
	if err := c.policy.Validate(failure.Invalid); err != nil {
		return nil, first.Named(err)
	}
	end, timed := time.Now().Add(wanted.Timeout), wanted.Timed()
	for circuit := c.guard.circuit(first); ; {
		var v []engine.Result
		why := circuit.openCause()
		err := why
		if why == nil {
			v, err = c.ask(ctx, wanted)
			// An ended ctx has no fallback: the caller has left, and an error of
			// its own making says nothing about Redis.
			if ctx.Err() != nil || !Failed(err) {
				return v, err
			}
		}
		spend(&wanted, end)
		v, back, e := c.fallBack(ctx, wanted, err)
		if !back {
			if e == why && e != nil {
				e = failure.NotAsked(why)
			}
			return v, first.Named(e)
		}
		if spend(&wanted, end); timed && !wanted.Waits() {
			// The timeout was spent on waiting for the share.
			return c.sameForAll(engine.Result{Degraded: true}), nil
		}
	}
}

// spend sets the timeout to the time that is left until end.
func spend(wanted *engine.Want, end time.Time) {
	if wanted.Timed() {
		wanted.Timeout = max(0, time.Until(end))
	}
}

// sameForAll returns the same result for each member.
func (c call) sameForAll(v engine.Result) []engine.Result {
	return slices.Repeat([]engine.Result{v}, len(c.limiters))
}

// ask asks Redis, and records its health from the outcome. If Redis is just back, ask
// takes no more than the Client's share, because another Client may still be granting its
// own.
func (c call) ask(ctx context.Context, wanted engine.Want) ([]engine.Result, error) {
	began, first := time.Now(), wanted
	var charged []*localLimiter // the shares that the permits were taken from
	if locals := c.locals(c.guard.withKnownRate); locals != nil && c.policy.Fallback == Local {
		v, back, err := c.fromShares(ctx, locals, wanted, false)
		if !back {
			return v, err
		}
		if request.Granted(v) {
			charged = locals
		}
		spend(&wanted, began.Add(first.Timeout))
	}
	if wanted.Budget = c.policy.budgetFor(ctx); first.Timed() && !wanted.Waits() {
		wanted.Budget = min(wanted.Budget, queue.Grace)
	}
	// The shares are charged before Redis is asked: concurrent calls must not both count
	// on the last permit.
	v, err := c.askRedis(wanted)
	ok := err == nil && request.Granted(v)
	// A refusal or an error gives the charge back, on every member: otherwise a
	// failing Redis would use up the share that is needed when it is down.
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

// noteOutcome records the health of Redis from the outcome of a call that started at
// began.
func (c call) noteOutcome(wanted engine.Want, began time.Time, err error) {
	took := time.Since(began)
	impatient := wanted.Timed() && took >= wanted.Timeout && took < wanted.Budget
	switch circuit := c.guard.circuit(c.limiters[0]); {
	case err == nil && wanted.Timed() && took >= wanted.Timeout: // refused in line, perhaps without a reply
	case !Failed(err) || redisx.Final(err): // a reply, though perhaps an error of this limiter alone
		circuit.noteReply()
		if redis.HasErrorPrefix(err, "OOM ") || redis.HasErrorPrefix(err, "MISCONF ") {
			circuit.noteRefused()
		}
	case impatient: // a short timeout says nothing about Redis
	case took < wanted.Budget, wanted.Budget >= min(leastBudget, c.policy.Budget): // an error, or silence
		// A caller may have stood in line before: Redis has been silent for the budget at most.
		circuit.noteFailure(c.limiters[0], time.Now().Add(-min(took, wanted.Budget)), err)
	}
}

// fallBack returns the result of a call for which Redis has failed with err. back
// reports whether Redis is well again, after the call has waited for permits.
func (c call) fallBack(ctx context.Context, wanted engine.Want, err error) (
	v []engine.Result, back bool, _ error,
) {
	g, fallback := c.guard, c.policy.Fallback
	if fallback == Deny && wanted.Timeout == queue.Forever {
		// Acquire cannot say no, so Deny becomes the error.
		fallback = ReturnError
	}
	switch fallback {
	// Counted here and in fromShares only, so that no call counts twice.
	case Allow, Deny:
		g.fallbackDecided.Add(1)
		v, err = c.sameForAll(engine.Result{OK: fallback == Allow, Degraded: true}), nil
		for i, limiter := range c.limiters {
			v[i].Limit = g.rate(limiter)
			if fallback == Deny {
				v[i].Wait = slowestProbe.Microseconds()
			}
		}
	case Local:
		if locals := c.locals(g.withAssumedRate); locals != nil {
			v, back, err = c.fromShares(ctx, locals, wanted, true)
		}
	}
	return v, back, err
}

// locals returns the local limiter that find returns for each member, nil if the rate of one is unknown.
func (c call) locals(find func(*engine.Limiter) *localLimiter) []*localLimiter {
	locals := make([]*localLimiter, len(c.limiters))
	for i, limiter := range c.limiters {
		if locals[i] = find(limiter); locals[i] == nil {
			return nil
		}
	}
	return locals
}

// fromShares is awaitShares, and counts the calls that the shares have decided.
func (c call) fromShares(
	ctx context.Context, locals []*localLimiter, wanted engine.Want, away bool,
) (v []engine.Result, back bool, err error) {
	v, back, err = c.awaitShares(ctx, locals, wanted, away)
	if err == nil && !back {
		c.guard.fallbackDecided.Add(1)
	}
	return v, back, err
}

// awaitShares takes permits from the shares of this Client, waiting for them as long as
// the caller does. away says that Redis has failed for this caller, so that the shares
// grant. back reports whether to ask Redis. If Redis has just come back, the shares are
// charged first, and the results report whether they had the permits.
//
// Each round looks at the circuit again, because Redis may come back while the
// caller waits for its share.
func (c call) awaitShares(
	ctx context.Context, locals []*localLimiter, wanted engine.Want, away bool,
) (v []engine.Result, back bool, err error) {
	circuit, end := locals[0].circuit, time.Now().Add(wanted.Timeout)
	for failed := away; ; failed = false {
		ungranted := failed || circuit.openCause() != nil
		if !ungranted && (away || !slices.ContainsFunc(locals, (*localLimiter).keepsToShare)) {
			return nil, true, nil
		}
		v, err = c.takeShares(locals, ungranted)
		ok := err == nil && request.Granted(v)
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

// takeShares takes permits from all shares or from none. unbooked says that Redis
// does not know of them.
func (c call) takeShares(locals []*localLimiter, unbooked bool) ([]engine.Result, error) {
	// Locked in the order of their hashes, to avoid deadlocks.
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
	v := make([]engine.Result, len(locals))
	for i, l := range locals {
		l.usedAt = now
		if unbooked && c.permits[i] > l.rate {
			return nil, c.limiters[i].Named(failure.Exceeds(c.permits[i], l.rate))
		}
		v[i] = l.judge(now, c.permits[i])
	}
	if request.Granted(v) {
		for i, l := range locals {
			v[i] = l.grant(now, c.permits[i], unbooked)
		}
	}
	return v, nil
}
