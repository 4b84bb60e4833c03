package rratelimiter

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// guarded is acquire for a Group that has a policy. It is RateLimiter.guarded for several
// limiters, which live on one server and so have one circuit.
func (g *Group) guarded(ctx context.Context, permits []int64, wanted want) ([]verdict, error) {
	guard, k := &g.client.guard, g.keys(0)
	if guard.off.Load() {
		return g.alike(verdict{ok: true, degraded: true}), nil
	}
	if err := g.policy.validate(""); err != nil {
		return nil, k.named(err)
	}
	end, timed := time.Now().Add(wanted.timeout), wanted.timed()
	for c := guard.circuit(k); ; {
		why := c.cause()
		err := why
		if why == nil {
			var v []verdict
			v, err = g.askHealthy(ctx, permits, wanted)
			if ctx.Err() != nil || !failed(err) {
				return v, err
			}
		}
		wanted.spend(end)
		v, back, e := g.fallBack(ctx, permits, wanted, err)
		if !back {
			if e == why && e != nil {
				e = k.notAsked(why)
			}
			return v, k.named(e)
		}
		if wanted.spend(end); timed && !wanted.waits() {
			return g.alike(verdict{degraded: true}), nil
		}
	}
}

// askHealthy asks Redis, and notes what that says about its health.
func (g *Group) askHealthy(ctx context.Context, permits []int64, wanted want) ([]verdict, error) {
	began, k := time.Now(), g.keys(0)
	circuit := k.client.guard.circuit(k)
	held := g.policy.fallback == FallbackLocal && circuit.returning()
	if held {
		// Others may still grant their shares: no more than ours, as RateLimiter.ask does.
		if v, known := g.takeLocal(permits, false); known && !granted(v) {
			return v, nil
		} else if !known {
			held = false
		}
	}
	wanted.budget = g.policy.within(ctx)
	v, err := g.await(ctx, permits, wanted)
	ok := err == nil && granted(v)
	for i, m := range g.members {
		switch l := k.client.guard.known(m.keys); {
		case held && !ok && l != nil:
			l.forget(permits[i])
		case err == nil:
			k.client.guard.learn(m.keys, permits[i], ok && !held, g.policy.fallback)
		}
	}
	took := time.Since(began)
	switch {
	case !failed(err) || redisx.Final(err):
		circuit.replied()
	case ctx.Err() == nil && wanted.budget >= leastBudget && !wanted.impatient(took, wanted.budget):
		circuit.failed(k, time.Now().Add(-min(took, wanted.budget)), err)
	}
	return v, err
}

// fallBack returns what a call gets for which Redis has failed because of err. back says
// that it waited for permits, and that Redis is well again.
func (g *Group) fallBack(
	ctx context.Context, permits []int64, wanted want, err error,
) (v []verdict, back bool, _ error) {
	guard, fallback := &g.client.guard, g.policy.fallback
	if fallback == FallbackDeny && wanted.timeout == forever {
		fallback = FallbackError
	}
	switch fallback {
	case FallbackAllow, FallbackDeny:
		v, err = make([]verdict, len(permits)), nil
		for i, m := range g.members {
			v[i] = verdict{ok: fallback == FallbackAllow, degraded: true, limit: guard.rate(m.keys)}
			if fallback == FallbackDeny {
				v[i].wait = slowestProbe.Microseconds()
			}
		}
	case FallbackLocal:
		v, back, err = g.acquireLocal(ctx, permits, wanted, err)
	}
	if err == nil && !back {
		guard.decided.Add(1)
	}
	return v, back, err
}

// acquireLocal takes permits from the shares of this Client, waiting for them as long as
// the caller does, or until Redis is back.
func (g *Group) acquireLocal(
	ctx context.Context, permits []int64, wanted want, err error,
) (v []verdict, back bool, _ error) {
	k, end := g.keys(0), time.Now().Add(wanted.timeout)
	for _, m := range g.members {
		if m.template != nil {
			k.client.guard.assume(m.keys, m.template.config, false)
		}
	}
	for first := true; ; first = false {
		circuit := k.client.guard.circuit(k)
		if !first && circuit.cause() == nil {
			return nil, true, nil
		}
		v, known := g.takeLocal(permits, true)
		if !known {
			return nil, false, err
		}
		for i := range v {
			if permits[i] > v[i].limit {
				return nil, false, g.keys(i).exceeds(permits[i], v[i].limit)
			}
		}
		if granted(v) {
			circuit.mend(k)
		}
		if wanted.spend(end); granted(v) || !wanted.waits() {
			return v, false, nil
		}
		pause := time.Duration(0)
		for _, one := range v {
			pause = max(pause, microseconds(one.wait))
		}
		if err := k.pause(ctx, min(pause, slowestProbe, wanted.timeout)); err != nil {
			return nil, false, err
		}
	}
}

// takeLocal takes permits from all shares or from none; own says that Redis does not know
// of them. It reports false if one of the limiters is not known.
func (g *Group) takeLocal(permits []int64, own bool) (v []verdict, known bool) {
	locals := make([]*local, len(g.members))
	for i, m := range g.members {
		if locals[i] = g.client.guard.known(m.keys); locals[i] == nil {
			return nil, false
		}
	}
	// Locked in one order, so that two Groups never wait for one another.
	ordered := slices.SortedFunc(slices.Values(locals), func(a, b *local) int {
		return strings.Compare(a.keys.Hash, b.keys.Hash)
	})
	for _, l := range ordered {
		l.mu.Lock()
		defer l.mu.Unlock()
	}
	now := time.Now()
	v = make([]verdict, len(locals))
	for i, l := range locals {
		v[i] = l.judge(now, permits[i])
	}
	if granted(v) {
		for i, l := range locals {
			v[i] = l.grant(now, permits[i], own)
		}
	}
	return v, true
}

// alike returns the same verdict for each member.
func (g *Group) alike(v verdict) []verdict {
	all := make([]verdict, len(g.members))
	for i := range all {
		all[i] = v
	}
	return all
}
