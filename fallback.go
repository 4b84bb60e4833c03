package rratelimiter

import (
	"context"
	"errors"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// A Fallback is what TryAcquire, Acquire and Allow return when Redis has failed: it
// did not reply within the budget (WithBudget), or replied an error such as OOM,
// READONLY or NOPERM. It does not stand in for what is wrong with the call or the
// limiter: ErrNotInitialized, ErrPermitsExceedRate, ErrInvalidArgument, ErrBadState,
// ErrNotReplicated and ErrClosed are returned unchanged, and so is the end of a context.
type Fallback int

const (
	// FallbackError returns the error. It is the default.
	FallbackError Fallback = iota

	// FallbackAllow grants the permits: the limit does not hold while Redis is away.
	FallbackAllow

	// FallbackDeny refuses them at once. Acquire, which has no way to say no, returns
	// the error.
	FallbackDeny

	// FallbackLocal limits in this process alone, to a share of the rate
	// (WithLocalShare), and waits as long as the call may. It counts what this Client
	// was granted by Redis before, and books what it grants when Redis is back: so an
	// outage does not end in a second window. For a limiter whose rate the Client has
	// not learnt, it returns the error. It learns the rate from the first reply, and again
	// every 10 s; or from WithRate, a Keyed, and a TrySetRate or SetRate to which Redis did
	// not reply.
	FallbackLocal
)

const (
	// defaultBudget is long for a Redis that is well, and short for a person who waits.
	defaultBudget = 250 * time.Millisecond

	// leastBudget is the shortest after which Redis counts as failed. A caller whose
	// context ends sooner has its fallback, but says nothing about Redis.
	leastBudget = 20 * time.Millisecond
)

// A policy is what a call does when Redis fails.
type policy struct {
	fallback Fallback
	budget   time.Duration
	bounded  bool // there is a budget
}

// withFallback returns the policy with another fallback.
func (p policy) withFallback(f Fallback) policy {
	p.fallback = f
	if !p.bounded {
		p.budget, p.bounded = defaultBudget, true
	}
	return p
}

// validate returns why the policy cannot be used; whose is whose argument it is.
func (p policy) validate(whose string) error {
	switch {
	case p.fallback < FallbackError || p.fallback > FallbackLocal:
		return &argumentError{whose, "fallback", int(p.fallback), "be one of the Fallback constants"}
	case p.bounded && p.budget < time.Millisecond:
		return &argumentError{whose, "budget", p.budget, "be at least 1ms"}
	}
	return nil
}

// within returns the budget of a call. It leaves a quarter of the time that the context
// has to the fallback.
func (p policy) within(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return max(time.Millisecond, min(p.budget, time.Until(end)/4*3))
	}
	return p.budget
}

// WithFallback sets what TryAcquire, Acquire and Allow of this Client return when Redis
// has failed. RateLimiter.WithFallback sets it for single calls. The default is
// FallbackError.
//
// It comes with a budget (WithBudget) and a circuit: after 3 requests in a row without a
// reply Redis is not asked any more, so that callers have their fallback at once. One
// request at a time then looks whether Redis is back, in the background: at first after
// 100 ms, then each time after twice as long, up to a second. It waits 2 s. A Client has one
// circuit. On a cluster it has 64, each for 256 of the 16,384 slots, and on a Ring one for
// each shard, because some servers may be away.
func WithFallback(f Fallback) Option {
	return option(func(c *Client) { c.policy = c.policy.withFallback(f) })
}

// WithBudget sets how long Redis may be silent when one of its replies is due: after d
// TryAcquire, Acquire and Allow return as WithFallback says. The time that a caller
// stands in line for permits does not count. Of a context that ends sooner, three
// quarters count. d is at least 1 ms; give Redis more than it takes on a bad day.
// The default is 250 ms with WithFallback, and no budget without it.
func WithBudget(d time.Duration) Option {
	return option(func(c *Client) { c.policy.budget, c.policy.bounded = d, true })
}

// WithLocalShare sets which share of a rate this Client grants by FallbackLocal: more
// than 0, at most 1. The default is one part for each Client of Go that has used the
// limiter within a minute, as learnt while Redis was well; all of it for a PerClient
// limit. Clients of Java do not count, for they do not go on without Redis. If the
// share is less than a permit in an interval, it is a permit in a longer time.
func WithLocalShare(share float64) Option {
	return option(func(c *Client) { c.guard.share, c.guard.fixed = share, true })
}

// WithHealthHook has f called each time that Redis has failed or is back, in the
// goroutine that notices, one call at a time. f must not block: the caller or the probe
// that notices waits for it.
func WithHealthHook(f func(Health)) Option {
	return option(func(c *Client) { c.guard.hook = f })
}

// WithFallback returns a RateLimiter of the same name whose calls fall back to f, as
// WithFallback says for a Client: a login denies, a search allows. It is cheap enough
// to be made for each call. An f that is none of the constants is an ErrInvalidArgument
// of the calls.
func (l *RateLimiter) WithFallback(f Fallback) *RateLimiter {
	other := &RateLimiter{policy: l.policy.withFallback(f), givenRate: l.givenRate}
	other.keys.Store(l.keys.Load())
	other.queue.Store(l.queue.Load())
	return other
}

// SetLimiting turns limiting off and on: while it is off, TryAcquire, Acquire and Allow
// grant everything at once, without Redis, and Release does nothing. It is for the
// hour in which the limiter itself is the trouble. All other methods go on. A Client
// begins with limiting on.
func (c *Client) SetLimiting(on bool) { c.guard.off.Store(!on) }

// guarded is acquire for a call that has a policy.
func (l *RateLimiter) guarded(ctx context.Context, k *limiterKeys, wanted want) (verdict, error) {
	v, err := guardedCall{
		members: []*member{{keys: k, givenRate: l.givenRate}},
		permits: []int64{wanted.permits},
		policy:  l.policy,
		redis: func(wanted want) ([]verdict, error) {
			v, err := l.enqueue(ctx, wanted)
			return []verdict{v}, err
		},
	}.run(ctx, wanted)
	if len(v) == 0 {
		return verdict{}, err
	}
	return v[0], err
}

// timed reports whether the caller has a timeout.
func (wanted *want) timed() bool { return wanted.waits() && wanted.timeout != forever }

// spend leaves what is left of the timeout until end.
func (wanted *want) spend(end time.Time) {
	if wanted.timed() {
		wanted.timeout = max(0, time.Until(end))
	}
}

// noteOutcome notes what a call that began at a time says about the health of Redis.
func (g *guard) noteOutcome(k *limiterKeys, wanted want, began time.Time, err error) {
	// To a caller that stood in line a reply was due for a budget only.
	took := time.Since(began)
	switch c := g.circuit(k); {
	case !failed(err) || redisx.Final(err): // a reply costs no time, and may be about this limiter alone
		c.replied()
	case wanted.budget >= leastBudget && !wanted.impatient(took, wanted.budget):
		c.failed(k, time.Now().Add(-min(took, wanted.budget)), err)
	}
}

// impatient reports whether its timeout ended a call before the budget was spent: that
// says nothing about Redis.
func (wanted *want) impatient(took, budget time.Duration) bool {
	return wanted.timed() && took >= wanted.timeout && took < budget
}

// failed reports whether an error of an acquire says that Redis has failed.
func failed(err error) bool {
	for _, of := range []error{
		nil, ErrNotInitialized, ErrPermitsExceedRate, ErrInvalidArgument, ErrBadState, ErrClosed,
		ErrNotReplicated,
	} {
		if errors.Is(err, of) {
			return false
		}
	}
	return true
}
