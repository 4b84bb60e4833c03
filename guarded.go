package rratelimiter

import (
	"context"
	"slices"
	"strings"
	"time"
)

// A guardedCall is a call under a policy: to one limiter, or to those of a Group, which live
// on one server and so have one circuit.
type guardedCall struct {
	members []*member
	permits []int64 // by member
	policy  policy

	redis func(wanted want) ([]verdict, error) // asks Redis
}

// run asks Redis, and falls back when Redis has failed.
func (call guardedCall) run(ctx context.Context, wanted want) ([]verdict, error) {
	k := call.members[0].keys
	g := &k.client.guard
	if g.off.Load() {
		return call.alike(verdict{ok: true, degraded: true}), nil
	}
	if err := call.policy.validate(""); err != nil {
		return nil, k.named(err)
	}
	end, timed := time.Now().Add(wanted.timeout), wanted.timed()
	for c := g.circuit(k); ; {
		var v []verdict
		why := c.cause()
		err := why
		if why == nil {
			v, err = call.ask(ctx, wanted)
			if ctx.Err() != nil || !failed(err) {
				return v, err
			}
		}
		wanted.spend(end)
		v, back, e := call.fallBack(ctx, wanted, err)
		if !back {
			if e == why && e != nil {
				e = k.notAsked(why)
			}
			return v, k.named(e)
		}
		if wanted.spend(end); timed && !wanted.waits() {
			return call.alike(verdict{degraded: true}), nil // it has waited for permits for as long as it may
		}
	}
}

// alike returns the same verdict for each member.
func (call guardedCall) alike(v verdict) []verdict {
	return slices.Repeat([]verdict{v}, len(call.members))
}

// ask asks Redis, and notes what that says about its health. If Redis is just back, it
// takes no more than the share of the Client, for others may still grant theirs.
func (call guardedCall) ask(ctx context.Context, wanted want) ([]verdict, error) {
	k := call.members[0].keys
	guard := &k.client.guard
	began, first := time.Now(), wanted
	var held []*local // the shares that the permits were taken from
	if locals := call.locals(); locals != nil && call.policy.fallback == FallbackLocal {
		v, back, err := call.fromShares(ctx, locals, wanted, false)
		if !back {
			guard.count(err)
			return v, err
		}
		if granted(v) {
			held = locals
		}
		wanted.spend(began.Add(first.timeout))
	}
	if wanted.budget = call.policy.within(ctx); first.timed() && !wanted.waits() {
		wanted.budget = min(wanted.budget, grace)
	}
	v, err := call.redis(wanted)
	ok := err == nil && granted(v)
	for i, m := range call.members {
		if held != nil && !ok {
			held[i].forget(call.permits[i])
		}
		if err == nil {
			guard.learn(m, call.permits[i], ok && held == nil, call.policy.fallback)
		}
	}
	if first.budget = wanted.budget; ctx.Err() == nil || !failed(err) {
		guard.noteOutcome(k, first, began, err)
	}
	return v, err
}

// fallBack returns what a call gets for which Redis has failed because of err. back
// says that it waited for permits, and that Redis is well again.
func (call guardedCall) fallBack(ctx context.Context, wanted want, err error) (
	v []verdict, back bool, _ error,
) {
	g := &call.members[0].keys.client.guard
	fallback := call.policy.fallback
	if fallback == FallbackDeny && wanted.timeout == forever {
		fallback = FallbackError
	}
	switch fallback {
	case FallbackAllow, FallbackDeny:
		v, err = call.alike(verdict{ok: fallback == FallbackAllow, degraded: true}), nil
		for i, m := range call.members {
			v[i].limit = g.rate(m.keys)
			if fallback == FallbackDeny {
				v[i].wait = slowestProbe.Microseconds()
			}
		}
	case FallbackLocal:
		for _, m := range call.members {
			g.assumeGiven(m)
		}
		if locals := call.locals(); locals != nil {
			v, back, err = call.fromShares(ctx, locals, wanted, true)
		}
	}
	if !back {
		g.count(err)
	}
	return v, back, err
}

// count counts a call that was decided without Redis, unless it ended in an error.
func (g *guard) count(err error) {
	if err == nil {
		g.decided.Add(1)
	}
}

// locals returns what is known of the members, nil if the rate of one is not.
func (call guardedCall) locals() []*local {
	locals := make([]*local, len(call.members))
	for i, m := range call.members {
		if locals[i] = m.keys.client.guard.known(m.keys); locals[i] == nil {
			return nil
		}
	}
	return locals
}

// fromShares takes permits from the shares of this Client, waiting for them as long as the
// caller does. away says that Redis has failed for this caller: then they are granted. back
// says that Redis is to be asked. If that has just come back, the permits are taken from the
// shares before, and the verdicts say so.
func (call guardedCall) fromShares(
	ctx context.Context, locals []*local, wanted want, away bool,
) (v []verdict, back bool, err error) {
	k, circuit, end := call.members[0].keys, locals[0].circuit, time.Now().Add(wanted.timeout)
	for failed := away; ; failed = false {
		own := failed || circuit.cause() != nil
		if !own && (away || !slices.ContainsFunc(locals, (*local).keepsToShare)) {
			return nil, true, nil
		}
		v, err = call.takeShares(locals, own)
		ok := err == nil && granted(v)
		if ok && own {
			circuit.mend(k)
		}
		if wanted.spend(end); ok || err != nil || !wanted.waits() {
			return v, ok && !own, err
		}
		pause := time.Duration(0)
		for _, one := range v {
			pause = max(pause, microseconds(one.wait))
		}
		if err = k.pause(ctx, min(pause, slowestProbe, wanted.timeout)); err != nil {
			return nil, false, err
		}
	}
}

// takeShares takes permits from all shares or from none; own says that Redis does not know
// of them.
func (call guardedCall) takeShares(locals []*local, own bool) ([]verdict, error) {
	// Locked in one order, so that two calls never wait for one another.
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
	v := make([]verdict, len(locals))
	for i, l := range locals {
		l.used = now
		if own && call.permits[i] > l.rate {
			return nil, call.members[i].keys.exceeds(call.permits[i], l.rate)
		}
		v[i] = l.judge(now, call.permits[i])
	}
	if granted(v) {
		for i, l := range locals {
			v[i] = l.grant(now, call.permits[i], own)
		}
	}
	return v, nil
}
