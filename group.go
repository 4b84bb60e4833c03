package rratelimiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redisson-go/rratelimiter/internal/wire"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Group is several limiters that decide together: "5 a second and 100 an hour", "this
// user and all users", "1 request and 3,500 tokens". A call takes permits from all of them
// or from none, by one script call, and is charged once as any other.
//
// A caller that waits stands in the line of each member that refuses it. Where a member
// does not refuse it, others pass. It takes its permits when all members have them; with
// Java it competes as single callers do.
//
// A Group is safe for concurrent use. It is a cheap handle, which may be made for each
// request. Java has nothing like it (redisson#4149); it sees ordinary limiters.
type Group struct {
	client  *Client
	members []*member
	policy  policy
	err     error // why it cannot be used, nil if it can
}

var _ limit.Limiter = (*Group)(nil)

// A member is one limiter of a Group.
type member struct {
	keys      *limiterKeys
	givenRate *givenRate
	amount    int64 // permits for each that is asked for
}

// All returns the Group of some limiters, 1 to 4, of this Client and with different names.
// They may be of a Keyed. On a cluster their names must have the same hash tag, as
// "{api}:second" and "{api}:hour", for one script runs on one server. A Group falls back as
// its first limiter does. If a limiter is renamed later, the Group keeps the old name.
//
// What is refused is an ErrInvalidArgument of each call.
func (c *Client) All(limiters ...*RateLimiter) *Group {
	g := &Group{client: c, policy: c.policy, err: c.err}
	if n := len(limiters); g.err == nil && (n < 1 || n > maxMembers) {
		bound := fmt.Sprintf("be between 1 and %d", maxMembers)
		g.err = &argumentError{"of All", "the number of limiters", n, bound}
	}
	for i, l := range limiters {
		if g.err == nil {
			g.err = g.add(i, l)
		}
	}
	return g
}

// add adds a member, or returns why that cannot be one.
func (g *Group) add(i int, l *RateLimiter) error {
	refuse := func(value, bound string) error {
		return &argumentError{"of All", fmt.Sprintf("limiters[%d]", i), value, bound}
	}
	if l == nil {
		return refuse("nil", "be a RateLimiter")
	}
	k := l.keys.Load()
	same := func(m *member) bool { return m.keys.Hash == k.Hash }
	switch {
	case k.err != nil:
		return k.err
	case k.client != g.client:
		return refuse(k.described(), "be of the same Client")
	case slices.ContainsFunc(g.members, same):
		return refuse(k.described(), "be there once")
	case i > 0 && k.client.runner.Sharded && !wire.SameSlot(k.Hash, g.keys(0).Hash):
		return refuse(k.described(), fmt.Sprintf("have the hash tag of %s, on a cluster: "+
			"their keys would be in different slots", g.keys(0).described()))
	}
	if i == 0 {
		g.policy = l.policy
	}
	g.members = append(g.members, &member{k, l.givenRate, 1})
	return nil
}

// keys returns the keys of a member.
func (g *Group) keys(i int) *limiterKeys { return g.members[i].keys }

// Amounts returns a Group of the same limiters that takes amounts[i] permits of the i-th
// limiter for each permit that is asked for: Amounts(1, 3500).Allow(ctx, 1) takes 1 request
// and 3,500 tokens. It is cheap enough to be made for each call. There are as many amounts
// as limiters, each 1 to 2^40; otherwise each call returns an ErrInvalidArgument.
func (g *Group) Amounts(amounts ...int64) *Group {
	other := &Group{client: g.client, policy: g.policy, err: g.err}
	if other.err == nil && len(amounts) != len(g.members) {
		other.err = &argumentError{"of Amounts", "the number of amounts", len(amounts),
			fmt.Sprintf("be %d, that of the limiters", len(g.members))}
	}
	for i, amount := range amounts {
		if other.err != nil {
			return other
		}
		m := *g.members[i]
		m.amount = amount
		other.members = append(other.members, &m)
		if amount < 1 || amount > maxPermits {
			other.err = &argumentError{"of Amounts", fmt.Sprintf("amounts[%d]", i), amount,
				fmt.Sprintf("be between 1 and %d (2^40)", int64(maxPermits))}
		}
	}
	return other
}

// WithFallback returns a Group of the same limiters that falls back to f, as
// RateLimiter.WithFallback does.
func (g *Group) WithFallback(f Fallback) *Group {
	other := *g
	other.policy = g.policy.withFallback(f)
	return &other
}

// Validate returns an ErrMisconfigured if each call would fail for what All or Amounts was given
// (limit.Validator).
func (g *Group) Validate() error { return misconfigured(g.err) }

// TryAcquire takes permits from all limiters, waiting up to timeout, and reports whether
// it took them. It is RateLimiter.TryAcquire for several limiters, with its bounds and
// errors; an error names the limiter that it is about. If permits times an amount is more
// than a rate, that is an ErrPermitsExceedRate, and nothing is taken from any.
func (g *Group) TryAcquire(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
	v, err := g.acquire(ctx, want{permits: permits, timeout: timeout})
	return granted(v), err
}

// Acquire takes permits from all limiters, waiting for them until ctx ends. The bounds and
// errors are those of TryAcquire.
func (g *Group) Acquire(ctx context.Context, permits int64) error {
	v, err := g.acquire(ctx, want{permits: permits, timeout: forever})
	if err == nil && !granted(v) {
		err = g.keys(0).unanswered(ErrNoAnswer, nil) // nil means that the caller holds the permits
	}
	return err
}

// Allow takes permits from all limiters if they are there now. The Result is that of the
// limiter that binds, which it names: the one with the longest RetryAfter where they
// refuse, otherwise the one that has the smallest part of its rate left. Each has the
// Results of all: Allowed of one of these says that this limiter did not refuse, not
// that permits were taken. The bounds and errors are those of TryAcquire.
func (g *Group) Allow(ctx context.Context, permits int64) (Result, error) {
	verdicts, err := g.acquire(ctx, want{permits: permits, numbers: true})
	if err != nil {
		return Result{}, err
	}
	r, _ := g.result(verdicts)
	return r, nil
}

// Release gives permits back to all limiters, one after another: permits that the caller
// was granted and did not use. 0 does nothing. The errors are those of RateLimiter.Release.
// After one, some of the limiters may have got theirs. Permits released late may return
// too early, as RateLimiter.Release says.
func (g *Group) Release(ctx context.Context, permits int64) error {
	if _, err := g.wants(permits, 0); err != nil {
		return err
	}
	for i, m := range g.members {
		l := &RateLimiter{policy: g.policy, givenRate: m.givenRate}
		l.keys.Store(g.keys(i))
		if err := l.Release(ctx, permits*m.amount); err != nil {
			return err
		}
	}
	return nil
}

// wants returns the permits that are asked of each member, for at least so many.
func (g *Group) wants(permits, least int64) ([]int64, error) {
	if g.err != nil {
		return nil, g.err
	}
	all := make([]int64, len(g.members))
	for i, m := range g.members {
		if err := checkPermits(permits, least); err != nil {
			return nil, m.keys.named(err)
		}
		if permits > maxPermits/m.amount {
			times := fmt.Sprintf("%d times the amount %d", permits, m.amount)
			return nil, m.keys.named(invalid("permits", times,
				fmt.Sprintf("be at most %d (2^40)", int64(maxPermits))))
		}
		all[i] = permits * m.amount
	}
	return all, nil
}

// result returns the numbers of a call, and which member binds.
func (g *Group) result(verdicts []verdict) (Result, int) {
	each, binds := make([]Result, len(verdicts)), 0
	all := granted(verdicts)
	for i, v := range verdicts {
		each[i] = v.result(g.keys(i).name, g.members[i].givenRate)
		if tighter(each[i], each[binds], all) {
			binds = i
		}
	}
	r := each[binds]
	r.Allowed, r.Each = all, each
	return r, binds
}

// tighter reports whether a limiter binds rather than another one, for a call that was
// granted or refused.
func tighter(r, other Result, granted bool) bool {
	switch {
	case granted:
		return float64(r.Remaining)*float64(other.Limit) < float64(other.Remaining)*float64(r.Limit)
	case r.Allowed != other.Allowed:
		return !r.Allowed
	}
	return r.RetryAfter > other.RetryAfter
}

// acquire asks for permits until it gets them, the timeout passes or ctx ends, and tells
// the observer.
func (g *Group) acquire(ctx context.Context, wanted want) ([]verdict, error) {
	if g.client.observer == nil {
		return g.decide(ctx, wanted)
	}
	start := time.Now()
	v, err := g.decide(ctx, wanted)
	g.client.observer.Observe(ctx, g.observation(v, wanted, start, err))
	return v, err
}

// decide asks for permits until it gets them, the timeout passes or ctx ends.
func (g *Group) decide(ctx context.Context, wanted want) ([]verdict, error) {
	permits, err := g.wants(wanted.permits, 1)
	if err != nil {
		return nil, err
	}
	if err := g.keys(0).usable(ctx); err != nil {
		return nil, err
	}
	if g.policy.bounded || g.client.guard.off.Load() {
		return guardedCall{g.members, permits, g.policy, func(wanted want) ([]verdict, error) {
			return g.await(ctx, permits, wanted)
		}}.run(ctx, wanted)
	}
	return g.await(ctx, permits, wanted)
}

// await asks Redis until it grants, the timeout passes or ctx ends.
func (g *Group) await(ctx context.Context, permits []int64, wanted want) ([]verdict, error) {
	k, whole, end := g.keys(0), ctx, time.Now().Add(wanted.timeout)
	if wanted.timed() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, end.Add(grace), ErrNoAnswer)
		defer cancel()
	}
	var last *groupCall
	if !wanted.waits() || !g.othersWait() {
		call, err := g.ask(ctx, permits, wanted)
		if err != nil || call.granted() || !wanted.waits() {
			return call.result(), k.named(err)
		}
		last = call
	}
	stood := time.Now()
	gc := g.stand(permits, last)
	defer gc.leave()
	var left <-chan time.Time // when the timeout passes; nil for never
	if wanted.timed() {
		timer := time.NewTimer(time.Until(end))
		defer timer.Stop()
		left = timer.C
	}
	v, err := gc.wait(waits{ctx, whole, left}, wanted, last)
	if err != nil {
		v = make([]verdict, len(permits))
	}
	for i := range v {
		v[i].queued = time.Since(stood)
	}
	return v, k.named(err)
}

// waits are what ends a wait.
type waits struct {
	ctx   context.Context  // of the calls: it has a deadline a little after the timeout
	whole context.Context  // of the caller
	left  <-chan time.Time // its timeout
}

// wait asks each time that it is the caller's turn, and once more when its timeout passes.
func (gc *groupCaller) wait(until waits, wanted want, last *groupCall) ([]verdict, error) {
	g := gc.group
	for expired := false; ; {
		turn := gc.turn()
		if expired && !turn {
			return make([]verdict, len(gc.permits)), nil // others, who stand ahead, would be served before
		}
		if turn {
			call, err := g.ask(until.ctx, gc.permits, wanted)
			switch {
			case expired && errors.Is(err, ErrNoAnswer) && gc.known.After(time.Now()):
				return last.result(), nil // Redis had said that they come back later
			case err != nil || call.granted() || expired:
				return call.result(), err
			}
			last = call
			gc.refused(call)
		}
		select {
		case <-gc.poke:
		case <-until.left:
			expired = true
		case <-until.whole.Done():
			return nil, until.whole.Err()
		case <-g.client.ctx.Done():
			return nil, ErrClosed
		}
	}
}

// ask makes one call, within the budget. It returns an ErrPermitsExceedRate if the permits
// can never be there.
func (g *Group) ask(ctx context.Context, permits []int64, wanted want) (*groupCall, error) {
	if wanted.budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, wanted.budget, errSilent)
		defer cancel()
	}
	call, err := g.call(ctx, permits, wanted)
	if err != nil {
		return nil, err
	}
	for i, v := range call.verdicts {
		if v.wait < 0 && !v.ok {
			return nil, g.keys(i).exceeds(permits[i], v.limit)
		}
	}
	return call, nil
}
