package rratelimiter

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/ahead"
	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/outage"
	"github.com/redisson-go/rratelimiter/internal/queue"
	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// A RateLimiter is one limit, shared by all clients that use its name: Redisson's
// RRateLimiter on the same keys. At most Rate permits are granted in any Interval; each
// comes back an Interval after it was taken.
//
// Most callers want [RateLimiter.TryAcquire], which waits for permits up to a timeout and
// then returns false. [RateLimiter.Acquire] waits as long as its context allows.
// [RateLimiter.Allow] does not wait and returns numbers to pass on, such as when to
// retry. TryAcquire without a timeout is the cheapest call: one round trip, yes or no.
//
// A RateLimiter is safe for concurrent use, and made for it: callers that arrive during a
// request share the next one, in order of arrival. It is a cheap handle, which may be
// made for each request. The Client owns all state of a limiter in this process.
type RateLimiter struct {
	client    *Client
	limiter   atomic.Pointer[engine.Limiter] // replaced by Rename
	policy    outage.Policy                  // what a call does when Redis fails
	givenRate *givenRate                     // the rate that acquires set; nil if they set none
}

func newRateLimiter(c *Client, k *engine.Limiter, p outage.Policy, g *givenRate) *RateLimiter {
	l := &RateLimiter{client: c, policy: p, givenRate: g}
	l.limiter.Store(k)
	return l
}

// Name returns the name of the limiter as given, before any mapping
// (RRateLimiter.getName).
func (l *RateLimiter) Name() string { return l.limiter.Load().Name() }

// String returns a text for people, such as `rate limiter "api"`. It does not ask Redis.
func (l *RateLimiter) String() string { return fmt.Sprintf("rate limiter %q", l.Name()) }

// WithRate returns a RateLimiter of the same name whose acquires set the rate: rate permits
// per interval, for all clients together (Overall). If no rate is set, or a different one,
// the acquire sets rate, interval and keep alive in the same round trip. So
// ErrNotInitialized cannot happen: not at the first start, not after the keep alive has
// passed, and not after Redis has lost its data. The RateLimiter is cheap enough to be made
// for each call.
//
// When the rate is replaced, permits that are out stay counted. A PerClient limiter stays
// PerClient. While old and new processes run side by side, each sets its own rate: if their
// intervals are equal, no interval has more permits than the larger rate. So after a deploy that
// lowers the rate, new processes may refuse every call until an interval after the last old process
// has stopped (docs/rates.md). A SetRate lasts until the next acquire. With WithKeepRate, acquires
// leave an existing rate alone.
//
// Peek returns the numbers that an acquire would find, and Release does nothing if no rate is
// set. All other methods are those of a RateLimiter without a rate.
//
// The limiter does not expire, so Java, rrl and a RateLimiter without a rate always find it.
// WithKeepAlive(d) makes it expire after d without use. If names are many or chosen by users,
// use a Keyed: its unused limiters expire by default.
//
// The bounds are those of TrySetRate. If an argument is out of bounds, each call and Validate
// return an ErrInvalidArgument.
func (l *RateLimiter) WithRate(rate int64, interval time.Duration, opts ...RateOption) *RateLimiter {
	k := l.limiter.Load()
	before, keeps := l.givenRate, int64(0)
	if before == nil {
		before = &givenRate{}
	} else if before.name != "" { // of a Keyed
		keeps = keyedIntervals
	}
	given, err := newGivenRate(ofWithRate, rate, interval, keeps, opts)
	switch {
	case err == nil:
		given.name, given.policy = before.name, before.policy
		k = k.With(given.forEngine)
	case k.Err == nil:
		k = l.client.engine.Unusable(k.Name(), failure.Misconfigured(err))
	}
	return newRateLimiter(l.client, k, l.policy, given)
}

// TrySetRate sets rate permits per interval if no rate is set, and reports whether it did
// (RRateLimiter.trySetRate). If many call at once, exactly one gets true. An existing
// rate stays, whatever it is: false does not say that the rate is the same (see Config).
// Values and permits left behind by an earlier limiter of this name are removed.
//
// rate is 1 to 2^53; interval is at least 1 ms, and a fraction of a ms is dropped. Errors
// are ErrInvalidArgument, ErrBadState, ErrClosed, and ErrNoAnswer, after which the rate
// may have been set: the request is not sent again.
func (l *RateLimiter) TrySetRate(
	ctx context.Context, typ RateType, rate int64, interval time.Duration, opts ...RateOption,
) (bool, error) {
	change := rateChange{Config: Config{typ, rate, interval, 0}, call: ofTrySetRate, onlyFirst: true}
	return l.setRate(ctx, change, opts)
}

// SetRate sets rate permits per interval, whatever was set before (RRateLimiter.setRate).
// The limiter starts full, unless WithKeepState is given. Without WithKeepAlive, an earlier
// keep alive ends. The end that Expire or ExpireAt has set stays, as with Redisson.
//
// A PerClient limit changes for all clients. Permits that other clients have taken stay
// counted, and each client adapts with its next call.
//
// The bounds and errors are those of TrySetRate.
func (l *RateLimiter) SetRate(
	ctx context.Context, typ RateType, rate int64, interval time.Duration, opts ...RateOption,
) error {
	_, err := l.setRate(ctx, rateChange{Config: Config{typ, rate, interval, 0}, call: ofSetRate}, opts)
	return err
}

// UpdateRate is SetRate for a limiter that has a rate already. It reports whether it had one; if not, nothing
// is changed (RRateLimiter.updateRate, Redisson 4.4.0 and later). The limiter starts full unless
// WithKeepState is given: to raise a quota in use, give it. The next acquire of a Keyed or a RateLimiter with
// a rate (WithRate) sets the rate of the program again, unless it has WithKeepRate.
func (l *RateLimiter) UpdateRate(
	ctx context.Context, typ RateType, rate int64, interval time.Duration, opts ...RateOption,
) (bool, error) {
	change := rateChange{Config: Config{typ, rate, interval, 0}, call: ofUpdateRate, mustExist: true}
	return l.setRate(ctx, change, opts)
}

// setRate carries out a change whose kind and conditions are set already.
func (l *RateLimiter) setRate(ctx context.Context, change rateChange, opts []RateOption) (bool, error) {
	k := l.limiter.Load()
	if err := k.Usable(ctx); err != nil {
		return false, err
	}
	if err := change.complete(opts); err != nil {
		return false, k.Named(err)
	}
	set, err := k.SetRate(ctx, engine.Change{
		Rate: change.rate(), KeepState: change.keepState,
		OnlyFirst: change.onlyFirst, MustExist: change.mustExist,
	})
	if l.policy.Fallback == outage.Local && (set || outage.Failed(err) && !redisx.Final(err)) {
		l.client.guard.Assume(k, change.rate(), set)
	}
	return set, err
}

// TryAcquire takes permits, waiting for them up to timeout, and reports whether it took
// them (RRateLimiter.tryAcquire). With a timeout <= 0 it does not wait: it takes permits
// that are there now, even if other callers are waiting.
//
// The waiting callers of a Client stand in line, first come first served, however many
// permits each wants. They take permits as soon as enough come back, unless these belong to
// other processes, or to Java (WithGoOnly).
//
// When the timeout passes, TryAcquire looks once more and returns (false, nil). If Redis
// is silent then, it waits another 30 ms, and returns (false, nil) if Redis has already
// said that the permits come back later, and an ErrNoAnswer otherwise. If ctx ends first,
// it returns an error for which errors.Is(err, ctx.Err()) holds. Without a timeout or an
// end of ctx, it waits as long as go-redis does (New).
//
// On false and on an error the caller holds nothing: permits that its request takes
// unnoticed are given back in the background. A request that Redis carries out only after
// that costs its permits for one interval.
//
// permits is 1 to 2^40; more than the rate is an ErrPermitsExceedRate at once. Other
// errors are ErrNotInitialized, ErrNoAnswer (which wraps the last network error),
// ErrInvalidArgument, ErrBadState, ErrClosed, and other errors that Redis replies, such
// as OOM or NOPERM, as a redis.Error.
func (l *RateLimiter) TryAcquire(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
	v, err := l.acquire(ctx, engine.Want{Permits: permits, Timeout: timeout})
	return v.OK, err
}

// Acquire takes permits, waiting for them until ctx ends
// (RRateLimiter.acquire). The bounds and errors are those of TryAcquire.
func (l *RateLimiter) Acquire(ctx context.Context, permits int64) error {
	v, err := l.acquire(ctx, engine.Want{Permits: permits, Timeout: queue.Forever})
	if err == nil && !v.OK {
		err = l.limiter.Load().Named(failure.NotHeld())
	}
	return err
}

// Allow takes permits if they are there now, and returns the numbers of the attempt. The bounds and errors
// are those of TryAcquire without a timeout: give it a context with a deadline.
func (l *RateLimiter) Allow(ctx context.Context, permits int64) (Result, error) {
	v, err := l.acquire(ctx, engine.Want{Permits: permits, Numbers: true})
	if err != nil {
		return Result{}, err
	}
	return resultOf(v, l.Name(), l.givenRate), nil
}

// Peek returns the numbers of the limiter and takes nothing: Allowed reports
// whether one permit is there, RetryAfter when it will be. It only reads.
// Errors are ErrNotInitialized, ErrBadState, ErrClosed, and ErrNoAnswer.
func (l *RateLimiter) Peek(ctx context.Context) (Result, error) {
	k := l.limiter.Load()
	v, err := k.Peek(ctx)
	if err != nil {
		return Result{}, err
	}
	return resultOf(v, k.Name(), l.givenRate), nil
}

// AvailablePermits returns the permits that could be taken now, between 0 and
// the rate (RRateLimiter.availablePermits; unlike it, it only reads). Errors
// are those of Peek.
func (l *RateLimiter) AvailablePermits(ctx context.Context) (int64, error) {
	r, err := l.Peek(ctx)
	return r.Remaining, err
}

// Release gives back permits that were taken and not used, so that other callers can take
// them at once (RRateLimiter.release, Redisson 3.52.0 and later). They come out of the
// newest grants of this Client, then out of the oldest grants of any client. Release
// ignores permits beyond those that are out: there are never more permits than the rate.
//
// Release them soon. A Client does not know which of its grants they belong to, and each
// late Release shifts the rest: if callers keep releasing late, permits return up to an
// interval early, also those of other clients, though never more than are out at once. To
// settle an estimate late, use Reserve, which is exact.
//
// Concurrent releases share a request. It is sent when the limiter's current request has
// its reply: give Release a context with a deadline.
//
// permits is 0 to 2^40; 0 does nothing. Errors are ErrNotInitialized,
// ErrInvalidArgument, ErrBadState, ErrClosed, and ErrNoAnswer, after which the
// permits may have been given back.
func (l *RateLimiter) Release(ctx context.Context, permits int64) error {
	k, guard := l.limiter.Load(), l.client.guard
	if err := k.Check(ctx, permits, 0); err != nil || permits == 0 || guard.Off() {
		return err
	}
	if permits = l.client.ahead.Return(ctx, k, permits); permits == 0 || guard.TakeBackUnbooked(k, permits) {
		return nil
	}
	err := k.Release(ctx, permits)
	if l.givenRate != nil && errors.Is(err, ErrNotInitialized) {
		return nil // nothing is out
	}
	if err == nil {
		guard.NoteReleased(k, permits)
	}
	return err
}

// Config returns the current configuration (RRateLimiter.getConfig). Errors are
// ErrNotInitialized, ErrBadState, ErrClosed, and ErrNoAnswer.
func (l *RateLimiter) Config(ctx context.Context) (Config, error) {
	rate, err := l.limiter.Load().Rate(ctx)
	return Config{RateType(rate.Type), rate.Permits, rate.Interval, rate.KeepAlive}, err
}

// Validate returns an ErrMisconfigured if each call would fail because of the limiter's name or an
// argument of New, Keyed or WithRate (limit.Validate).
func (l *RateLimiter) Validate() error { return failure.Misconfigured(l.limiter.Load().Err) }

// WithLease returns a RateLimiter of the same name that takes permits ahead, as the option WithLease does for
// a Client. The zero LeaseOptions turn leases off. If o is out of bounds, the calls return an
// ErrInvalidArgument.
func (l *RateLimiter) WithLease(o LeaseOptions) *RateLimiter {
	policy, err := leasing(l.policy, o)
	k := l.limiter.Load()
	if err != nil {
		k = l.client.engine.Unusable(k.Name(), err)
	}
	return newRateLimiter(l.client, k, policy, l.givenRate)
}

// leasing returns a policy with these leases.
func leasing(p outage.Policy, o LeaseOptions) (outage.Policy, error) {
	p.Leasing = ahead.Leasing{Longest: o.Max, Share: o.Share}
	return p, p.Leasing.Validate(failure.Invalid)
}

// acquire is decide, and calls the observer.
func (l *RateLimiter) acquire(ctx context.Context, wanted engine.Want) (engine.Result, error) {
	o := l.client.observer
	if o == nil {
		return l.decide(ctx, wanted)
	}
	start := time.Now()
	v, err := l.decide(ctx, wanted)
	o.Observe(ctx, observation(v, l, wanted, start, err))
	return v, err
}

// decide asks for permits until it gets them, their timeout passes or ctx ends.
func (l *RateLimiter) decide(ctx context.Context, wanted engine.Want) (v engine.Result, err error) {
	k, guard := l.limiter.Load(), l.client.guard
	if err = k.Check(ctx, wanted.Permits, 1); err != nil {
		return v, err
	}
	above, leases, off := l.client.ahead, l.policy.Leasing.Longest > 0, guard.Off()
	knows := leases || above.Remember > 0
	if knows && !off && above.Decide(k, leases, &wanted, &v) {
		return v, nil
	}
	switch {
	case l.policy.Bounded || off:
		v, err = guard.Acquire(ctx, k, l.policy, wanted, above.Acquire)
	case knows:
		v, err = above.Acquire(ctx, k, wanted)
	default:
		v, err = k.Acquire(ctx, wanted)
	}
	if leases && err == nil && !v.Degraded {
		above.NoteAsked(k, l.policy.Leasing, &wanted, &v)
	}
	return v, err
}
