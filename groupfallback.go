package rratelimiter

import (
	"context"
	"slices"
	"strings"
	"time"
)

// guarded is acquire for a Group that has a policy. Its limiters live on one server and so
// have one circuit.
func (g *Group) guarded(ctx context.Context, permits []int64, wanted want) ([]verdict, error) {
	return guardedCall[[]verdict]{
		ask: func(wanted want) ([]verdict, error) { return g.askHealthy(ctx, permits, wanted) },
		fallBack: func(wanted want, err error) ([]verdict, bool, error) {
			return g.fallBack(ctx, permits, wanted, err)
		},
		all: g.alike,
	}.run(ctx, g.keys(0), g.policy, wanted)
}

// askHealthy asks Redis, and notes what that says about its health. If Redis is just back,
// a call takes no more than the share of the Client, as RateLimiter.ask does.
func (g *Group) askHealthy(ctx context.Context, permits []int64, wanted want) ([]verdict, error) {
	began, k := time.Now(), g.keys(0)
	guard := &k.client.guard
	held := false
	if g.keepsToShare() {
		var v []verdict
		if v, held = g.takeLocal(permits, false); held && !granted(v) {
			return v, nil
		}
	}
	wanted.budget = g.policy.within(ctx)
	v, err := g.await(ctx, permits, wanted)
	g.learn(permits, held, v, err)
	if ctx.Err() == nil || !failed(err) {
		guard.noteOutcome(k, wanted, began, err)
	}
	return v, err
}

// keepsToShare reports whether a call must keep to the share of the Client, for one of its
// limiters at least.
func (g *Group) keepsToShare() bool {
	return g.policy.fallback == FallbackLocal && slices.ContainsFunc(g.members, func(m *member) bool {
		l := g.client.guard.known(m.keys)
		return l != nil && l.keepsToShare()
	})
}

// learn notes what each limiter has granted. Where permits were taken from the shares
// before (held), they go back if Redis has not granted them.
func (g *Group) learn(permits []int64, held bool, v []verdict, err error) {
	guard, ok := &g.client.guard, err == nil && granted(v)
	for i, m := range g.members {
		if l := guard.known(m.keys); held && !ok && l != nil {
			l.forget(permits[i])
		}
		if err == nil {
			guard.learn(m.keys, permits[i], ok && !held, g.policy.fallback)
		}
	}
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
	}
	defer func() {
		for _, l := range ordered {
			l.mu.Unlock()
		}
	}()
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
