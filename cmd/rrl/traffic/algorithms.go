package traffic

import (
	"context"
	"fmt"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/concurrency"
	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
	"github.com/redisson-go/rratelimiter/limit/leakybucket"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
)

// An algorithm is one kind of limiter in memory, and the behaviour of its requests.
type algorithm struct {
	name  string
	limit int64 // the most permits at once; 0 if the remaining part is unknown

	waits int64         // how many requests may wait in a queue; 0: a refused request has failed
	hold  time.Duration // of a limit of concurrency: after this time permits are given back; 0: never

	// one makes a limiter.
	one func(opts ...limit.Option) (limit.Limiter, error)
}

// made completes an algorithm with the method of the library that makes its limiters, which returns an
// interface of more methods than are needed here.
func made[L limit.Limiter](a algorithm, one func(opts ...limit.Option) (L, error)) algorithm {
	a.one = func(opts ...limit.Option) (limit.Limiter, error) { return one(opts...) }
	return a
}

// algorithms returns all algorithms but RRateLimiter, from the coarsest to the finest.
func (p *Plan) algorithms() []algorithm {
	window := fixedwindow.Window{Rate: p.Rate, Interval: p.Per}
	counter := slidingwindow.Counter{Rate: p.Rate, Interval: p.Per}
	log := slidingwindow.Log{Rate: p.Rate, Interval: p.Per}
	bucket := tokenbucket.Bucket{Capacity: p.Capacity, Rate: float64(p.Rate), Interval: p.Per}
	meter := leakybucket.Meter{Capacity: p.Capacity, Rate: p.Rate, Interval: p.Per}
	queue := leakybucket.Queue{Rate: p.Rate, Interval: p.Per, Capacity: p.Capacity}
	smooth := tokenbucket.Smooth{Rate: float64(p.Rate), Interval: p.Per}
	warm := tokenbucket.Smooth{Rate: float64(p.Rate), Interval: p.Per, WarmUp: p.Per}
	atOnce := concurrency.Limit{Most: p.AtOnce(), Lease: 2 * p.Per}
	return []algorithm{
		made(algorithm{name: "fixed window", limit: p.Rate}, window.InMemory),
		made(algorithm{name: "sliding counter", limit: p.Rate}, counter.InMemory),
		made(algorithm{name: "sliding log", limit: p.Rate}, log.InMemory),
		made(algorithm{name: "token bucket", limit: p.Capacity}, bucket.InMemory),
		made(algorithm{name: "leaky meter", limit: p.Capacity}, meter.InMemory),
		made(algorithm{name: "leaky queue", waits: p.Capacity}, queue.InMemory),
		made(algorithm{name: "smooth"}, smooth.InMemory),
		made(algorithm{name: "warm-up"}, warm.InMemory),
		made(algorithm{name: "concurrency", limit: p.AtOnce(), hold: p.Hold},
			atOnce.InMemory),
	}
}

// lane returns the lane of a limiter of an algorithm.
func (a *algorithm) lane(c *clock) (lane, error) {
	l, err := a.one(limit.WithClock(c.now))
	if err != nil {
		return lane{}, fmt.Errorf("%s: %w", a.name, err)
	}
	made := lane{name: a.name, limiter: l, set: c.set, waits: a.waits, hold: a.hold}
	if r, ok := l.(limit.Releaser); ok && a.limit > 0 {
		made.left = left(r, a.limit)
	}
	return made, nil
}

// left returns a function that returns the remaining part of a limit. It asks for all permits: either they
// are refused and nothing has changed, or all were available and are given back.
func left(l limit.Releaser, all int64) func(ctx context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		result, err := l.Allow(ctx, all)
		if err == nil && result.Allowed {
			return 1, l.Release(ctx, all)
		}
		return float64(result.Remaining) / float64(all), err
	}
}
