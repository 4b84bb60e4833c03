package rratelimiter

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A RateLimiter is one limit, shared by all who use its name: Redisson's
// RRateLimiter on the same keys. At most Rate permits are given out in any
// Interval; each comes back an Interval after it was taken.
//
// Most callers want [RateLimiter.TryAcquire], which waits up to a timeout for
// permits and returns false when that passes. [RateLimiter.Acquire] waits as
// long as its context allows. [RateLimiter.Allow] does not wait and returns
// numbers to pass on, such as how long to stay away. TryAcquire without a
// timeout is the cheapest call: one round trip, a yes or a no.
//
// A RateLimiter is safe for concurrent use, and made for it: callers that arrive
// during a request share the next one, in the order in which they came. It is a
// cheap handle: what is known of a limiter belongs to the Client, so one may be
// made for each request.
type RateLimiter struct {
	keys  atomic.Pointer[limiterKeys] // changed by Rename
	queue atomic.Pointer[queue]       // the one it used last

	policy    policy     // what a call does when Redis fails
	givenRate *givenRate // that its acquires set; nil if they set none
}

// Name returns the name of the limiter as it was given, before any mapping
// (RRateLimiter.getName).
func (l *RateLimiter) Name() string { return l.keys.Load().name }

// String returns a text for people, such as `rate limiter "api"`. It does not ask Redis.
func (l *RateLimiter) String() string { return fmt.Sprintf("rate limiter %q", l.Name()) }

// WithRate returns a RateLimiter of the same name whose acquires set the rate: rate permits
// per interval, to all clients together (Overall). Where no rate is set, or another one,
// each acquire sets its rate, interval and keep alive in the same round trip. So
// ErrNotInitialized cannot happen: neither at the first start, nor after keep alive has
// passed or Redis has come back empty. It is cheap enough to be made for each call.
//
// Permits that are taken stay counted when the rate is replaced. A limiter that is PerClient
// stays so. While old and new processes run side by side, each sets its own rate: with one
// interval, no interval has more permits than the larger rate. SetRate lasts until the next
// acquire. With WithKeepRate the acquires leave a rate alone that is set.
//
// Peek tells what an acquire would find, and Release does nothing where no rate is set. All
// other methods are those of a RateLimiter without a rate.
//
// The limiter does not expire, so that Java, rrl and a RateLimiter without a rate find it at any
// time. WithKeepAlive(d) makes it expire when it was not used for d. Where names are many or
// chosen by others, take a Keyed: its unused limiters expire by default.
//
// The bounds are those of TrySetRate. An argument that is refused is an ErrInvalidArgument
// of each call and of Validate.
func (l *RateLimiter) WithRate(rate int64, interval time.Duration, opts ...RateOption) *RateLimiter {
	k := l.keys.Load()
	before, keeps := l.givenRate, int64(0)
	if before == nil {
		before = &givenRate{}
	} else if before.name != "" { // of a Keyed
		keeps = keyedKeeps
	}
	given, err := newGivenRate(rate, interval, keeps, opts)
	if err == nil {
		given.name, given.policy = before.name, before.policy
	} else if k.err == nil {
		k = k.client.unusable(k.name, err)
		k.err = misconfigured(k.err)
	}
	other := given.limiter(k, l.policy)
	other.queue.Store(l.queue.Load())
	return other
}

// TrySetRate sets rate permits per interval if no rate is set, and reports
// whether it did (RRateLimiter.trySetRate). If many call at once, exactly one
// gets true. A rate that is set already stays, whatever it is. Values and permits
// that an earlier limiter of this name has left behind are removed.
//
// rate is 1 to 2^53; interval is at least 1 ms, and a fraction of a ms is
// dropped. Errors are ErrInvalidArgument, ErrBadState, ErrClosed, and ErrNoAnswer:
// after that one the rate may have been set, for the request is not sent again.
func (l *RateLimiter) TrySetRate(
	ctx context.Context, typ RateType, rate int64, interval time.Duration, opts ...RateOption,
) (bool, error) {
	return l.setRate(ctx, rateChange{Config: Config{typ, rate, interval, 0}, script: trySetRateScript}, opts)
}

// SetRate sets rate permits per interval, whatever was set before
// (RRateLimiter.setRate). The limiter starts full, unless WithKeepState is
// given. Without WithKeepAlive no key keeps a time to live it had.
//
// A PerClient limit is changed for all clients. The permits that other clients
// have taken stay counted, and each client adapts with its next call.
//
// The bounds and errors are those of TrySetRate.
func (l *RateLimiter) SetRate(
	ctx context.Context, typ RateType, rate int64, interval time.Duration, opts ...RateOption,
) error {
	_, err := l.setRate(ctx, rateChange{Config: Config{typ, rate, interval, 0}, script: setRateScript}, opts)
	return err
}

// UpdateRate is SetRate for a limiter that has a rate already. It reports whether
// it had one; if not, nothing is changed (RRateLimiter.updateRate, Redisson 4.4.0
// and later).
func (l *RateLimiter) UpdateRate(
	ctx context.Context, typ RateType, rate int64, interval time.Duration, opts ...RateOption,
) (bool, error) {
	change := rateChange{Config: Config{typ, rate, interval, 0}, script: setRateScript, mustExist: true}
	return l.setRate(ctx, change, opts)
}

// A rateChange is what TrySetRate, SetRate and UpdateRate do.
type rateChange struct {
	Config
	rateOptions
	script    *redisx.Script
	mustExist bool // set it only where a rate is set
}

// setRate carries out a change whose script and conditions are given already.
func (l *RateLimiter) setRate(ctx context.Context, change rateChange, opts []RateOption) (bool, error) {
	k := l.keys.Load()
	if err := k.usable(ctx); err != nil {
		return false, err
	}
	if err := change.complete(opts); err != nil {
		return false, k.named(err)
	}
	set, err := within(ctx, k, func(ctx context.Context) (bool, error) {
		args := argumentsOf(change.Rate, change.Interval.Milliseconds(), change.KeepAlive.Milliseconds(),
			flag(change.keepState), k.client.now(), flag(change.mustExist), k.client.session)
		args.put(argChannel, k.Changed)
		reply, _, err := k.runOn(ctx, change.Type, operation{change.script, time.Now(), args, did})
		if err != nil || reply.At(0) == 0 {
			return false, err
		}
		k.believe(change.Type)
		err = k.clearOther(ctx, change.Type)
		return err == nil, err
	})
	if l.policy.fallback == FallbackLocal && (set || failed(err) && !redisx.Final(err)) {
		k.client.guard.assume(k, change.Config, set)
	}
	return set, err
}

// flag is how scripts are told yes or no.
func flag(yes bool) string {
	if yes {
		return "1"
	}
	return "0"
}

// clearOther removes the keys of the other type, which are of no use any more.
// A script names the keys of one type, so this takes a second script, which checks
// again which type is in force. It is only run if there are such keys: while a slot
// of a cluster moves, a script must not name keys that are not there.
func (k *limiterKeys) clearOther(ctx context.Context, typ RateType) error {
	other := k.Pairs[1-typ]
	var found int64
	for _, key := range []string{other.Value, other.Permits} {
		n, err := k.exists(ctx, key)
		if err != nil {
			return k.scriptError(typ, err)
		}
		found += n
	}
	if found == 0 {
		return nil
	}
	_, _, err := k.runOn(ctx, 1-typ, operation{clearScript, time.Now(), argumentsOf(), nil})
	return err
}

// TryAcquire takes permits, waiting for them up to timeout, and reports
// whether it took them (RRateLimiter.tryAcquire). With a timeout <= 0 it does
// not wait: it takes what is there now, also when others wait.
//
// The waiting callers of a Client stand in line, first come first served, whatever
// each wants. They take their permits as soon as these come back, unless they
// let Java go first (WithGoOnly).
//
// When the timeout passes, TryAcquire looks once more and returns (false, nil). If
// Redis is silent then, it waits 30 ms more. After that it returns (false, nil) if
// Redis had said that the permits come back only later, and an ErrNoAnswer
// otherwise. When ctx ends first, it returns an error for which
// errors.Is(err, ctx.Err()) holds. With neither timeout nor end of ctx, it waits
// for as long as go-redis does (New).
//
// On false and on an error nothing is kept: what the request takes without its
// caller knowing is given back in the background. A request that Redis carries
// out only after that costs its permits for one interval.
//
// permits is 1 to 2^40; more than the rate is an ErrPermitsExceedRate at once.
// Other errors are ErrNotInitialized, ErrNoAnswer (it wraps what the network has
// said), ErrInvalidArgument, ErrBadState, ErrClosed, and what Redis replies besides,
// such as OOM or NOPERM, as a redis.Error.
func (l *RateLimiter) TryAcquire(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
	v, err := l.acquire(ctx, want{permits: permits, timeout: timeout})
	return v.ok, err
}

// Acquire takes permits, waiting for them until ctx ends
// (RRateLimiter.acquire). The bounds and errors are those of TryAcquire.
func (l *RateLimiter) Acquire(ctx context.Context, permits int64) error {
	v, err := l.acquire(ctx, want{permits: permits, timeout: forever})
	if err == nil && !v.ok {
		err = l.keys.Load().unanswered(ErrNoAnswer, nil) // nil means that the caller holds the permits
	}
	return err
}

// Allow takes permits if they are there now, and returns the numbers that go with
// that. The bounds and errors are those of TryAcquire without a timeout: give it a
// context with a deadline.
func (l *RateLimiter) Allow(ctx context.Context, permits int64) (Result, error) {
	v, err := l.acquire(ctx, want{permits: permits, numbers: true})
	if err != nil {
		return Result{}, err
	}
	return v.result(l.Name(), l.givenRate), nil
}

// Peek returns the numbers of the limiter and takes nothing: Allowed reports
// whether one permit is there, RetryAfter when it will be. It only reads.
// Errors are ErrNotInitialized, ErrBadState, ErrClosed, and ErrNoAnswer.
func (l *RateLimiter) Peek(ctx context.Context) (Result, error) {
	k := l.keys.Load()
	return within(ctx, k, func(ctx context.Context) (Result, error) {
		args := argumentsOf(k.client.session)
		args.put(argPermits, 1)
		args.put(argNow, k.client.now())
		if l.givenRate != nil {
			args.put(argGivenRate, l.givenRate.text)
		}
		reply, _, err := k.run(ctx, operation{peekScript, time.Now(), args, nil})
		if err != nil {
			return Result{}, err
		}
		one := []run{{1, 1}} // one caller that wants one permit; whether it is there is seen below
		a, err := newAcquireReply(reply, len(one))
		if err != nil {
			return Result{}, err
		}
		v := newSplit(a, one).next()
		v.ok = v.left >= 1
		return v.result(k.name, l.givenRate), nil
	})
}

// AvailablePermits returns the permits that could be taken now, between 0 and
// the rate (RRateLimiter.availablePermits; unlike it, it only reads). Errors
// are those of Peek.
func (l *RateLimiter) AvailablePermits(ctx context.Context) (int64, error) {
	r, err := l.Peek(ctx)
	return r.Remaining, err
}

// Release gives permits back that were taken and not used, so that others can
// take them at once (RRateLimiter.release, Redisson 3.52.0 and later). They
// come out of the newest grants of this Client, and then out of the oldest ones,
// whoever has them. What is more than was taken and has not come back by itself is
// ignored: there are never more permits than the rate.
//
// Release them soon. A Client does not know which of its grants they are of, so
// permits released late may return earlier than they should, by at most the time
// between take and release. Do not use Release to settle an estimate late.
//
// Releases that come at once share a request. It is sent when the request of the
// limiter that is under way has its reply: give Release a context with a deadline.
//
// permits is 0 to 2^40; 0 does nothing. Errors are ErrNotInitialized,
// ErrInvalidArgument, ErrBadState, ErrClosed, and ErrNoAnswer, after
// which the permits may have been given back.
func (l *RateLimiter) Release(ctx context.Context, permits int64) error {
	k := l.keys.Load()
	if err := checkPermits(permits, 0); err != nil {
		return k.named(err)
	}
	if err := k.usable(ctx); err != nil || permits == 0 || k.client.guard.off.Load() {
		return err
	}
	if k.client.guard.gives(k, permits) {
		return nil
	}
	_, err := l.enqueue(ctx, want{permits: permits, gives: true})
	if l.givenRate != nil && errors.Is(err, ErrNotInitialized) {
		return nil // nothing is out
	}
	if err == nil {
		k.client.guard.gave(k, permits)
	}
	return err
}

// Config returns what is set (RRateLimiter.getConfig). Errors are
// ErrNotInitialized, ErrBadState, ErrClosed, and ErrNoAnswer.
func (l *RateLimiter) Config(ctx context.Context) (Config, error) {
	k := l.keys.Load()
	return within(ctx, k, func(ctx context.Context) (Config, error) {
		get := func(rdb redis.Cmdable) ([]any, error) {
			return rdb.HMGet(ctx, k.Hash, wire.Rate, wire.Interval, wire.Type, wire.KeepAlive).Result()
		}
		fields, err := redisx.OnMaster(ctx, &k.client.runner, k.Hash, get)
		if err != nil {
			return Config{}, k.scriptError(Overall, err)
		}
		return k.parseConfig(fields)
	})
}

// Validate returns an ErrMisconfigured if each call would fail for the name of the limiter, or for
// what New, Keyed or WithRate was given (limit.Validator).
func (l *RateLimiter) Validate() error { return misconfigured(l.keys.Load().err) }
