package rls

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

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
	limiter
	limit.Charger
}

// A limiter is that of a package under limit/.
type limiter interface {
	limit.Releaser
	limit.Peeker
	// TryReserve is Allow for permits that may be given back. The Reservation may be nil.
	TryReserve(ctx context.Context, n int64) (*limit.Reservation, limit.Result, error)
}

// An exactCounter is a RateLimiter, whose acquires have the fallback of the library. Its other calls end with
// the budget.
type exactCounter struct {
	*rratelimiter.RateLimiter
	budget time.Duration
}

// Peek implements counter.
func (c exactCounter) Peek(ctx context.Context) (limit.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, c.budget)
	defer cancel()
	return c.RateLimiter.Peek(ctx)
}

// Charge implements counter.
func (c exactCounter) Charge(ctx context.Context, n int64) (limit.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, c.budget)
	defer cancel()
	return c.RateLimiter.Charge(ctx, n)
}

// Release implements counter.
func (c exactCounter) Release(ctx context.Context, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, c.budget)
	defer cancel()
	return c.RateLimiter.Release(ctx, n)
}

// openers makes the limiters of a Config.
type openers struct {
	client *rratelimiter.Client
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
		return func(string) counter { return exactCounter{l, o.budget} }, l.Validate()
	}
	keyed := o.client.Keyed(o.name(r.domain), r.rate, r.interval).WithFallback(fallback)
	return func(key string) counter { return exactCounter{keyed.For(key), o.budget} }, keyed.Validate()
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

// A keyed is a limiter with a limit for each key.
type keyed[L limiter] interface {
	limiter
	limit.Keyed[L]
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

func openAs[L keyed[L]](o *openers, r *rule, algorithm form.Maker[L]) (func(key string) counter, error) {
	rdb, name := o.client.Redis().WithFallback(rratelimiter.FallbackError), r.limiter
	if r.fallback == fallbackLocal {
		rdb = o.client.Redis().WithFallback(rratelimiter.FallbackLocal)
	}
	if name == "" {
		name = o.name(r.domain)
	}
	all, err := algorithm.OnRedis(rdb, name)
	return func(key string) counter {
		if r.limiter != "" {
			return other{all, r.most()}
		}
		return other{all.For(key), r.most()}
	}, err
}

// An other is a counter of an algorithm of package limit.
type other struct {
	limiter
	most int64 // permits at once
}

// Charge takes n permits, whatever is left. Parse refuses charges of an algorithm without debts.
func (c other) Charge(ctx context.Context, n int64) (limit.Result, error) {
	return c.limiter.(limit.Charger).Charge(ctx, n)
}

// Release gives back n permits, or as many as may be out.
func (c other) Release(ctx context.Context, n int64) error {
	return c.limiter.Release(ctx, min(n, c.most))
}

// failed reports whether Redis or its absence, rather than the call, caused an error.
func failed(err error) bool {
	return err != nil && !errors.Is(err, limit.ErrInvalidArgument) &&
		!errors.Is(err, limit.ErrPermitsExceedRate) && !errors.Is(err, rratelimiter.ErrBadState) &&
		!errors.Is(err, rratelimiter.ErrClosed)
}
