package rls

import (
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
	// TryReserve is Allow for permits that may be given back.
	TryReserve(ctx context.Context, n int64) (*limit.Reservation, limit.Result, error)
	// Charge takes what was spent, whatever is left.
	Charge(ctx context.Context, n int64) (limit.Result, error)
	// Release gives back what was taken.
	Release(ctx context.Context, n int64) error
}

var _ counter = (*rratelimiter.RateLimiter)(nil)

// openers makes the limiters of a Config.
type openers struct {
	client *rratelimiter.Client
	redis  redis.UniversalClient
	prefix string
	budget time.Duration

	failures failures
}

// failures reports errors hidden by fallbacks.
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
		return func(string) counter { return l }, l.Validate()
	}
	keyed := o.client.Keyed(o.name(r.domain), r.rate, r.interval).WithFallback(fallback)
	return func(key string) counter { return keyed.RateLimiter(key) }, keyed.Validate()
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
	local, err := algorithm.InMemoryKeyed()
	if err != nil {
		return nil, err
	}
	if r.fallback != fallbackLocal {
		local = *new(K)
	}
	common := other{local: local, budget: o.budget, most: r.most(), failures: &o.failures}
	if r.limiter != "" {
		common.key = "all"
		common.limiter, err = algorithm.OnRedis(o.redis, r.limiter)
		return func(string) counter { return &common }, err
	}
	common.keyed, err = algorithm.OnRedisKeyed(o.redis, o.name(r.domain))
	return func(key string) counter {
		c := common
		c.key = key
		return &c
	}, err
}

// An other is a counter of an algorithm of package limit, with or without keys.
type other struct {
	keyed   limit.KeyedReleaser
	key     string
	limiter limit.Releaser      // instead of keyed
	local   limit.KeyedReleaser // decides when Redis has failed; nil for none
	budget  time.Duration
	most    int64 // permits at once

	failures *failures
}

// Allow takes n permits if they are there.
func (c *other) Allow(ctx context.Context, n int64) (limit.Result, error) {
	within, cancel := context.WithTimeout(ctx, c.budget)
	defer cancel()
	var r limit.Result
	var err error
	if c.limiter != nil {
		r, err = c.limiter.Allow(within, n)
	} else {
		r, err = c.keyed.Allow(within, c.key, n)
	}
	if c.local != nil && ctx.Err() == nil && failed(err) {
		c.failures.add(err)
		r, err = c.local.Allow(ctx, c.key, n)
		r.Degraded = true
	}
	return r, err
}

// Peek reserves a permit and gives it back: algorithms other than Redisson's have no call that only
// looks. A concurrent caller may be refused meanwhile.
func (c *other) Peek(ctx context.Context) (limit.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, c.budget)
	defer cancel()
	reservation, r, err := c.TryReserve(ctx, 1)
	if err == nil && r.Allowed {
		r.Remaining = min(r.Remaining+1, r.Limit)
		err = reservation.Cancel(ctx)
	}
	return r, err
}

// TryReserve reserves n permits. Package concurrency has no reservations: exactly the permits taken are
// given back, because the oldest permits may be those of a dead caller, whose lease must end.
func (c *other) TryReserve(ctx context.Context, n int64) (*limit.Reservation, limit.Result, error) {
	within, cancel := context.WithTimeout(ctx, c.budget)
	defer cancel()
	if reserver, ok := c.limiter.(limit.Reserver); ok {
		return reserver.TryReserve(within, n)
	}
	if reserver, ok := c.keyed.(limit.KeyedReserver); ok {
		return reserver.TryReserve(within, c.key, n)
	}
	lender, ok := c.keyed.(form.Lender)
	if c.limiter != nil {
		lender, ok = c.limiter.(form.Lender)
	}
	if !ok {
		return nil, limit.Result{}, fmt.Errorf("rls: %T cannot reserve", lender)
	}
	r, d, err := lender.Lend(within, c.key, n)
	back := func(ctx context.Context, used []int64) error { return lender.Return(ctx, c.key, n-used[0], d) }
	if c.local != nil && ctx.Err() == nil && failed(err) {
		c.failures.add(err)
		r, err = c.local.Allow(ctx, c.key, n)
		r.Degraded = true
		back = func(ctx context.Context, used []int64) error {
			return c.local.Release(ctx, c.key, n-used[0])
		}
	}
	return limit.NewReservation(nil, back), r, err
}

// Charge takes n permits, whatever is left. If the algorithm has no debts, it takes what is there.
func (c *other) Charge(ctx context.Context, n int64) (limit.Result, error) {
	within, cancel := context.WithTimeout(ctx, c.budget)
	defer cancel()
	if charger, ok := c.limiter.(limit.Charger); ok {
		return charger.Charge(within, n)
	}
	if charger, ok := c.keyed.(limit.KeyedCharger); ok {
		return charger.Charge(within, c.key, n)
	}
	return c.Allow(ctx, n)
}

// Release gives back n permits, or as many as may be out.
func (c *other) Release(ctx context.Context, n int64) error {
	n = min(n, c.most)
	ctx, cancel := context.WithTimeout(ctx, c.budget)
	defer cancel()
	if c.limiter != nil {
		return c.limiter.Release(ctx, n)
	}
	return c.keyed.Release(ctx, c.key, n)
}

// failed reports whether Redis or its absence, rather than the call, caused an error.
func failed(err error) bool {
	return err != nil && !errors.Is(err, limit.ErrInvalidArgument) &&
		!errors.Is(err, limit.ErrPermitsExceedRate) && !errors.Is(err, rratelimiter.ErrBadState) &&
		!errors.Is(err, rratelimiter.ErrClosed)
}
