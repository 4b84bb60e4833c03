package rratelimiter

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/outage"
	"github.com/redisson-go/rratelimiter/internal/queue"
	"github.com/redisson-go/rratelimiter/internal/request"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Group is several limiters that decide together: "5 a second and 100 an hour", "this
// user and all users", "1 request and 3,500 tokens". A call takes permits from all of them
// or from none, in one script call, and is charged once like any other.
//
// A waiting caller stands in the line of each limiter that refused it, and may be overtaken at the limiters
// that did not. It takes its permits when all limiters have them. It competes with Java like a caller of one
// limiter.
//
// A Group is safe for concurrent use. It is a cheap handle, which may be made for each
// request. Redisson has no counterpart (redisson#4149); Java sees ordinary limiters.
type Group struct {
	client  *Client
	members []*member
	group   *engine.Group // of the members, nil if err is not
	policy  outage.Policy
	err     error // why it cannot be used, nil if it can
}

var _ limit.Limiter = (*Group)(nil)

// A member is one limiter of a Group.
type member struct {
	limiter   *engine.Limiter
	givenRate *givenRate
	amount    int64 // permits for each one requested
}

// All returns the Group of 1 to 8 limiters of this Client with different names. They may
// come from a Keyed. On a cluster their names must have the same hash tag, like
// "{api}:second" and "{api}:hour", because a script runs on one server. A Group falls back
// as its first limiter does. If a limiter is renamed later, the Group keeps the old name.
//
// If an argument is invalid, each call returns an ErrInvalidArgument.
func (c *Client) All(limiters ...*RateLimiter) *Group {
	g := &Group{client: c, policy: c.policy, err: c.host.Err}
	if n := len(limiters); g.err == nil && (n < 1 || n > engine.MaxMembers) {
		bound := fmt.Sprintf("be between 1 and %d", engine.MaxMembers)
		g.err = failure.InvalidOf("All", "the number of limiters", n, bound)
	}
	for i, l := range limiters {
		if g.err == nil {
			g.err = g.add(i, l)
		}
	}
	if g.err == nil {
		limiters := make([]*engine.Limiter, len(g.members))
		for i, m := range g.members {
			limiters[i] = m.limiter
		}
		g.group = c.engine.Group(limiters...)
	}
	return g
}

// add adds a member, or returns why it cannot be one.
func (g *Group) add(i int, l *RateLimiter) error {
	refuse := func(value, bound string) error {
		return failure.InvalidOf("All", fmt.Sprintf("limiters[%d]", i), value, bound)
	}
	if l == nil {
		return refuse("nil", "be a RateLimiter")
	}
	k := l.limiter.Load()
	same := func(m *member) bool { return m.limiter.Hash == k.Hash }
	switch {
	case k.Err != nil:
		return k.Err
	case l.client != g.client:
		return refuse(k.Described(), "be of the same Client")
	case slices.ContainsFunc(g.members, same):
		return refuse(k.Described(), "be there once")
	case i > 0 && !k.Together(g.members[0].limiter):
		return refuse(k.Described(), fmt.Sprintf("have the hash tag of %s, on a cluster: "+
			"their keys would be in different slots", g.members[0].limiter.Described()))
	}
	if i == 0 {
		g.policy = l.policy
	}
	g.members = append(g.members, &member{k, l.givenRate, 1})
	return nil
}

// Amounts returns a Group of the same limiters that takes amounts[i] permits from the i-th
// limiter for each permit requested: Amounts(1, 3500).Allow(ctx, 1) takes 1 request and
// 3,500 tokens. It is cheap enough to be made for each call. Each limiter needs one amount,
// 1 to 2^40; otherwise each call returns an ErrInvalidArgument.
func (g *Group) Amounts(amounts ...int64) *Group {
	other := &Group{client: g.client, group: g.group, policy: g.policy, err: g.err}
	if other.err == nil && len(amounts) != len(g.members) {
		other.err = failure.InvalidOf("Amounts", "the number of amounts", len(amounts),
			fmt.Sprintf("be %d, one for each limiter", len(g.members)))
	}
	for i, amount := range amounts {
		if other.err != nil {
			return other
		}
		m := *g.members[i]
		m.amount = amount
		other.members = append(other.members, &m)
		if amount < 1 || amount > request.MaxPermits {
			other.err = failure.InvalidOf("Amounts", fmt.Sprintf("amounts[%d]", i), amount,
				fmt.Sprintf("be between 1 and %d (2^40)", int64(request.MaxPermits)))
		}
	}
	return other
}

// WithFallback returns a Group of the same limiters that falls back to f, as
// RateLimiter.WithFallback does.
func (g *Group) WithFallback(f Fallback) *Group {
	other := *g
	other.policy = g.policy.With(int(f))
	return &other
}

// Validate returns an ErrMisconfigured if each call would fail because of an argument of All or
// Amounts (limit.Validate).
func (g *Group) Validate() error { return failure.Misconfigured(g.err) }

// TryAcquire takes permits from all limiters, waiting up to timeout, and reports whether
// it took them. It is RateLimiter.TryAcquire for several limiters, with its bounds and
// errors; an error names its limiter. If permits times an amount is more than a rate, the
// error is ErrPermitsExceedRate, and nothing is taken from any limiter.
func (g *Group) TryAcquire(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
	v, err := g.acquire(ctx, engine.Want{Permits: permits, Timeout: timeout})
	return request.Granted(v), err
}

// Acquire takes permits from all limiters, waiting for them until ctx ends. The bounds and
// errors are those of TryAcquire.
func (g *Group) Acquire(ctx context.Context, permits int64) error {
	v, err := g.acquire(ctx, engine.Want{Permits: permits, Timeout: queue.Forever})
	if err == nil && !request.Granted(v) {
		err = g.members[0].limiter.Named(failure.NotHeld())
	}
	return err
}

// Allow takes permits from all limiters if they are there now. The Result names the
// limiter that binds and has its numbers: the limiter with the longest RetryAfter on a
// refusal, otherwise the one with the smallest part of its rate left. Its field Each has
// the Results of all limiters, in which Allowed says that this limiter did not refuse,
// not that permits were taken. The bounds and errors are those of TryAcquire.
func (g *Group) Allow(ctx context.Context, permits int64) (Result, error) {
	results, err := g.acquire(ctx, engine.Want{Permits: permits, Numbers: true})
	if err != nil {
		return Result{}, err
	}
	r, _ := g.result(results)
	return r, nil
}

// Release gives unused permits back to all limiters, one after another. 0 does nothing. The errors are those
// of RateLimiter.Release; after an error, some of the limiters may have their permits back. Permits released
// late may return too early, as RateLimiter.Release says.
func (g *Group) Release(ctx context.Context, permits int64) error {
	if _, err := g.wants(permits, 0); err != nil {
		return err
	}
	for _, m := range g.members {
		l := newRateLimiter(g.client, m.limiter, g.policy, m.givenRate)
		if err := l.Release(ctx, permits*m.amount); err != nil {
			return err
		}
	}
	return nil
}

// wants returns the permits that a call asks of each member, or an error if
// permits is below least.
func (g *Group) wants(permits, least int64) ([]int64, error) {
	if g.err != nil {
		return nil, g.err
	}
	all := make([]int64, len(g.members))
	for i, m := range g.members {
		if err := request.CheckPermits(permits, least); err != nil {
			return nil, m.limiter.Named(err)
		}
		if permits > request.MaxPermits/m.amount {
			times := fmt.Sprintf("%d times the amount %d", permits, m.amount)
			return nil, m.limiter.Named(failure.Invalid("permits", times,
				fmt.Sprintf("be at most %d (2^40)", int64(request.MaxPermits))))
		}
		all[i] = permits * m.amount
	}
	return all, nil
}

// result returns the numbers of a call, and the index of the member that binds.
func (g *Group) result(results []engine.Result) (Result, int) {
	each, binds := make([]Result, len(results)), 0
	all := request.Granted(results)
	for i, v := range results {
		each[i] = resultOf(v, g.members[i].limiter.Name(), g.members[i].givenRate)
		if tighter(each[i], each[binds], all) {
			binds = i
		}
	}
	r := each[binds]
	r.Allowed, r.Each = all, each
	return r, binds
}

// tighter reports whether r binds rather than other.
func tighter(r, other Result, granted bool) bool {
	switch {
	case granted:
		left, otherLeft := r.Remaining-r.Debt, other.Remaining-other.Debt
		return float64(left)*float64(other.Limit) < float64(otherLeft)*float64(r.Limit)
	case r.Allowed != other.Allowed:
		return !r.Allowed
	}
	return r.RetryAfter > other.RetryAfter
}

// acquire calls decide and reports the outcome to the observer.
func (g *Group) acquire(ctx context.Context, wanted engine.Want) ([]engine.Result, error) {
	start := time.Now()
	v, err := g.decide(ctx, wanted)
	g.observe(ctx, v, wanted, start, err)
	return v, err
}

// decide asks for permits until it gets them, the timeout passes or ctx ends.
func (g *Group) decide(ctx context.Context, wanted engine.Want) ([]engine.Result, error) {
	permits, err := g.wants(wanted.Permits, 1)
	if err != nil {
		return nil, err
	}
	if err := g.members[0].limiter.Usable(ctx); err != nil {
		return nil, err
	}
	guard := g.client.guard
	if g.policy.Bounded || guard.Off() {
		return guard.AcquireAll(ctx, g.group, permits, g.policy, wanted)
	}
	return g.group.Acquire(ctx, permits, wanted)
}
