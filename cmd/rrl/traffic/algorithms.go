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

// An algorithm is one kind of limiter in memory, and how requests behave there.
type algorithm struct {
	name  string
	limit int64 // the permits that are there at most; 0 if it cannot be told what is left

	// Of a queue: how many may wait. 0: what is refused has failed.
	waits int64

	// Of a limit of concurrency: after which permits are given back. 0: never.
	hold time.Duration

	// One makes a limit, many a limit for each key.
	one  func(opts ...limit.Option) (limit.Limiter, error)
	many func(opts ...limit.Option) (limit.Keyed, error)
}

// made returns an algorithm that makes its limiters by the methods of a struct of the
// library. These return interfaces of more methods than are needed here.
func made[L limit.Limiter, K limit.Keyed](a algorithm, one func(opts ...limit.Option) (L, error),
	many func(opts ...limit.Option) (K, error)) algorithm {
	a.one = func(opts ...limit.Option) (limit.Limiter, error) { return one(opts...) }
	a.many = func(opts ...limit.Option) (limit.Keyed, error) { return many(opts...) }
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
		made(algorithm{name: "fixed window", limit: p.Rate}, window.InMemory, window.InMemoryKeyed),
		made(algorithm{name: "sliding counter", limit: p.Rate}, counter.InMemory, counter.InMemoryKeyed),
		made(algorithm{name: "sliding log", limit: p.Rate}, log.InMemory, log.InMemoryKeyed),
		made(algorithm{name: "token bucket", limit: p.Capacity}, bucket.InMemory, bucket.InMemoryKeyed),
		made(algorithm{name: "leaky meter", limit: p.Capacity}, meter.InMemory, meter.InMemoryKeyed),
		made(algorithm{name: "leaky queue", waits: p.Capacity}, queue.InMemory, queue.InMemoryKeyed),
		made(algorithm{name: "smooth"}, smooth.InMemory, smooth.InMemoryKeyed),
		made(algorithm{name: "warm-up"}, warm.InMemory, warm.InMemoryKeyed),
		made(algorithm{name: "concurrency", limit: p.AtOnce(), hold: p.Hold},
			atOnce.InMemory, atOnce.InMemoryKeyed),
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

// left returns what tells the part of a limit that is left. It asks for all permits: they
// are refused and nothing has changed, or all were there and are given back.
func left(l limit.Releaser, all int64) func(ctx context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		result, err := l.Allow(ctx, all)
		if err == nil && result.Allowed {
			return 1, l.Release(ctx, all)
		}
		return float64(result.Remaining) / float64(all), err
	}
}
