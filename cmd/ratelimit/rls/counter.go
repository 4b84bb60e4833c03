package rls

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/concurrency"
	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
	"github.com/redisson-go/rratelimiter/limit/leakybucket"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
)

// A counter is the limit of one descriptor of a request.
type counter interface {
	limit.Limiter

	// Peek returns the numbers, and takes nothing.
	Peek(ctx context.Context) (limit.Result, error)
	// TryReserve is Allow for permits that may be given back. The Reservation may be nil.
	TryReserve(ctx context.Context, n int64) (*limit.Reservation, limit.Result, error)
	// Charge takes what was spent, whatever is left.
	Charge(ctx context.Context, n int64) (limit.Result, error)
	// Release gives back what was taken.
	Release(ctx context.Context, n int64) error
}

// An exactly is the counter of a limiter whose acquires fall back by themselves. Its other calls end with the
// budget.
type exactly struct {
	*rratelimiter.RateLimiter
	budget time.Duration
}

// Peek implements counter.
func (c exactly) Peek(ctx context.Context) (limit.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, c.budget)
	defer cancel()
	return c.RateLimiter.Peek(ctx)
}

// Charge implements counter.
func (c exactly) Charge(ctx context.Context, n int64) (limit.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, c.budget)
	defer cancel()
	return c.RateLimiter.Charge(ctx, n)
}

// Release implements counter.
func (c exactly) Release(ctx context.Context, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, c.budget)
	defer cancel()
	return c.RateLimiter.Release(ctx, n)
}

// openers makes the limiters of a Config.
type openers struct {
	client *rratelimiter.Client
	redis  redis.UniversalClient
	prefix string
	budget time.Duration
	zone   *time.Location // of calendars; nil for none

	failures failures
}

// failures reports errors that are hidden from callers.
type failures struct {
	report func(error)  // nil for none
	last   atomic.Int64 // when report was called, in ns since 1970
}

// betweenFailures is the time between two reports, so that a log does not get one for each request.
const betweenFailures = 10 * time.Second

func (f *failures) add(err error) {
	now, last := time.Now().UnixNano(), f.last.Load()
	if f.report != nil && now-last >= int64(betweenFailures) && f.last.CompareAndSwap(last, now) {
		f.report(err)
	}
}

// open returns the function that makes the counters of a rule, nil if no limiter decides.
func (o *openers) open(r *rule) (func(key string) counter, error) {
	if o.zone != nil && r.unit > 0 {
		r.algorithm = calendar
	}
	switch {
	case r.unlimited || r.rate == 0:
		return nil, nil
	case r.algorithm != exact:
		return o.openOther(r)
	}
	fallback := map[string]rratelimiter.Fallback{
		fallbackLocal: rratelimiter.FallbackLocal, fallbackAllow: rratelimiter.FallbackAllow,
		fallbackDeny: rratelimiter.FallbackDeny, fallbackError: rratelimiter.FallbackError,
	}[r.fallback]
	if r.limiter != "" {
		// A rate that Java has set stays: the service shares the limit, it does not own it.
		l := o.client.RateLimiter(r.limiter).
			WithRate(r.rate, r.interval, rratelimiter.WithKeepRate()).WithFallback(fallback)
		return func(string) counter { return exactly{l, o.budget} }, l.Validate()
	}
	keyed := o.client.Keyed(o.name(r.domain), r.rate, r.interval).WithFallback(fallback)
	return func(key string) counter { return exactly{keyed.RateLimiter(key), o.budget} }, keyed.Validate()
}

// name returns the name of the limiters of a domain. With all_or_none they share a slot of a cluster,
// because one script decides about several limiters.
func (o *openers) name(d *domain) string {
	name := o.prefix + escaped(d.name)
	if d.allOrNone {
		return "{" + name + "}"
	}
	return name
}

// A maker is an algorithm of any package, whose limiters are an L with keys or a K without.
type maker[L limit.Releaser, K limit.KeyedReleaser] interface {
	OnRedis(rdb redis.UniversalClient, name string) (L, error)
	OnRedisKeyed(rdb redis.UniversalClient, name string) (K, error)
	InMemoryKeyed(opts ...limit.Option) (K, error)
}

// openOther returns the function for a rule with an algorithm of package limit.
func (o *openers) openOther(r *rule) (func(key string) counter, error) {
	burst := r.most()
	switch r.algorithm {
	case fixedWindow:
		return openAs(o, r, fixedwindow.Window{Rate: r.rate, Interval: r.interval})
	case calendar:
		return openAs(o, r, fixedwindow.Calendar{Rate: r.rate, Unit: r.unit, Location: o.zone})
	case slidingWindow:
		return openAs(o, r, slidingwindow.Counter{Rate: r.rate, Interval: r.interval})
	case gcra:
		return openAs(o, r, leakybucket.Meter{Capacity: burst, Rate: r.rate, Interval: r.interval})
	case tokenBucket:
		return openAs(o, r, tokenbucket.Bucket{Capacity: burst, Rate: float64(r.rate), Interval: r.interval})
	case concurrent:
		return openAs(o, r, concurrency.Limit{Most: r.rate, Lease: r.interval})
	}
	return nil, fmt.Errorf("%w: algorithm is %q, must be one of %v",
		limit.ErrInvalidArgument, r.algorithm, algorithms)
}

func openAs[L limit.Releaser, K limit.KeyedReleaser](
	o *openers, r *rule, algorithm maker[L, K],
) (func(key string) counter, error) {
	common := other{budget: o.budget, most: r.most(), failures: &o.failures}
	var err error
	if r.fallback == fallbackLocal {
		common.local, err = formOf(algorithm.InMemoryKeyed(limit.WithMostKeys(mostLocals)))
		if err != nil {
			return nil, err
		}
	}
	if r.limiter != "" {
		common.key = "all"
		common.shared, err = formOf(algorithm.OnRedis(o.redis, r.limiter))
	} else {
		common.shared, err = formOf(algorithm.OnRedisKeyed(o.redis, o.name(r.domain)))
	}
	return func(key string) counter {
		c := common
		c.key = cmp.Or(c.key, key)
		return &c
	}, err
}

// formOf returns a limiter of package limit as what it is.
func formOf(limiter any, err error) (form.Form, error) {
	f, ok := limiter.(form.Form)
	if err == nil && !ok {
		err = fmt.Errorf("rls: %T cannot be charged or looked at", limiter)
	}
	return f, err
}

// mostLocals is how many keys of a limit have limits of their own while Redis is down: visitors choose them.
const mostLocals = 5000

// An other is a counter of an algorithm of package limit.
type other struct {
	shared form.Form
	local  form.Form // decides when Redis has failed; nil for none
	key    string    // of local, and of shared if it has keys
	budget time.Duration
	most   int64 // permits at once

	failures *failures
}

// ask makes a call of Redis, or if that has failed, of this process. ctx is that of the request: a decision
// of this process comes when the budget is spent.
func (c *other) ask(
	ctx context.Context, call func(context.Context, form.Form) (limit.Result, error),
) (limit.Result, error) {
	within, cancel := context.WithTimeout(ctx, c.budget)
	defer cancel()
	r, err := call(within, c.shared)
	if c.local != nil && ctx.Err() == nil && failed(err) {
		c.failures.add(err)
		r, err = call(ctx, c.local)
		r.Degraded = true
	}
	return r, err
}

// Allow takes n permits if they are there.
func (c *other) Allow(ctx context.Context, n int64) (limit.Result, error) {
	return c.ask(ctx, func(ctx context.Context, f form.Form) (limit.Result, error) {
		r, _, err := f.Lend(ctx, c.key, n)
		return r, err
	})
}

// Peek takes nothing.
func (c *other) Peek(ctx context.Context) (limit.Result, error) {
	return c.ask(ctx, func(ctx context.Context, f form.Form) (limit.Result, error) {
		return f.Look(ctx, c.key)
	})
}

// TryReserve reserves n permits, of which a settlement gives some back.
func (c *other) TryReserve(ctx context.Context, n int64) (*limit.Reservation, limit.Result, error) {
	var made *limit.Reservation
	r, err := c.ask(ctx, func(ctx context.Context, f form.Form) (limit.Result, error) {
		r, d, err := f.Lend(ctx, c.key, n)
		if r.Allowed {
			made = limit.NewReservation(nil, func(ctx context.Context, used []int64) error {
				return f.Return(ctx, c.key, n-used[0], d)
			})
		}
		return r, err
	})
	return made, r, err
}

// Charge takes n permits, whatever is left.
func (c *other) Charge(ctx context.Context, n int64) (limit.Result, error) {
	return c.ask(ctx, func(ctx context.Context, f form.Form) (limit.Result, error) {
		return f.Debit(ctx, c.key, n)
	})
}

// Release gives back n permits, or as many as may be out.
func (c *other) Release(ctx context.Context, n int64) error {
	_, err := c.ask(ctx, func(ctx context.Context, f form.Form) (limit.Result, error) {
		return limit.Result{}, f.GiveBack(ctx, c.key, min(n, c.most))
	})
	return err
}

// failed reports whether Redis or its absence, rather than the call, caused an error.
func failed(err error) bool {
	return err != nil && !errors.Is(err, limit.ErrInvalidArgument) &&
		!errors.Is(err, limit.ErrPermitsExceedRate) && !errors.Is(err, rratelimiter.ErrBadState) &&
		!errors.Is(err, rratelimiter.ErrClosed)
}
