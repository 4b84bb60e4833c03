package traffic

import (
	"context"
	"net"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/concurrency"
	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
	"github.com/redisson-go/rratelimiter/limit/leakybucket"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
)

// lanes returns a lane for each algorithm but RRateLimiter, from the coarsest to the finest.
func (p *Plan) lanes() []lane {
	window := fixedwindow.Window{Rate: p.Rate, Interval: p.Per}
	counter := slidingwindow.Counter{Rate: p.Rate, Interval: p.Per}
	log := slidingwindow.Log{Rate: p.Rate, Interval: p.Per}
	bucket := tokenbucket.Bucket{Capacity: p.Rate, Rate: float64(p.Rate), Interval: p.Per}
	meter := leakybucket.Meter{Capacity: p.Rate, Rate: p.Rate, Interval: p.Per}
	queue := leakybucket.Queue{Rate: p.Rate, Interval: p.Per, Capacity: p.Rate}
	smooth := tokenbucket.Smooth{Rate: float64(p.Rate), Interval: p.Per}
	warm := tokenbucket.Smooth{Rate: float64(p.Rate), Interval: p.Per, WarmUp: p.Per}
	atOnce := concurrency.Limit{Most: p.atOnce(), Lease: 2 * p.Per}
	return []lane{
		made(p, lane{name: "fixed window"}, p.Rate, window.InMemory),
		made(p, lane{name: "sliding counter"}, p.Rate, counter.InMemory),
		made(p, lane{name: "sliding log"}, p.Rate, log.InMemory),
		made(p, lane{name: "token bucket"}, p.Rate, bucket.InMemory),
		made(p, lane{name: "leaky meter"}, p.Rate, meter.InMemory),
		made(p, lane{name: "leaky queue", waits: p.Rate}, 0, queue.InMemory),
		made(p, lane{name: "smooth"}, 0, smooth.InMemory),
		made(p, lane{name: "warm-up"}, 0, warm.InMemory),
		made(p, lane{name: "concurrency", hold: p.hold()}, p.atOnce(), atOnce.InMemory),
	}
}

// made completes a lane with a limiter of at most all permits at once. all is 0 if the remaining part of the
// limit is unknown.
func made[L limit.Peeker](p *Plan, l lane, all int64, one func(opts ...limit.Option) (L, error)) lane {
	c := newClock(p.Per)
	limiter, err := one(limit.WithClock(c.now))
	l.limiter, l.set, l.err = limiter, c.set, err
	if all > 0 {
		l.left = left(limiter, all)
	}
	return l
}

// left returns a function that returns the remaining part of a limit.
func left(l limit.Peeker, all int64) func(ctx context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		result, err := l.Peek(ctx)
		return float64(result.Remaining) / float64(all), err
	}
}

// rratelimiter sends a traffic through RRateLimiter, on a miniredis with a clock that is set by hand.
func (p *Plan) rratelimiter(ctx context.Context, t Traffic) (*Strip, error) {
	m := miniredis.NewMiniRedis()
	defer m.Close()
	rdb := redis.NewClient(&redis.Options{
		Addr:   "embedded",
		Dialer: func(context.Context, string, string) (net.Conn, error) { return m.Dial() },

		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer rdb.Close() // before the server, or its connections break
	client := rratelimiter.New(rdb)
	defer client.Close()
	clock := newClock(p.Per)
	set := func(at time.Duration) {
		clock.set(at)
		m.SetTime(clock.now())
	}
	set(0)
	l := client.RateLimiter("compare")
	if err := l.SetRate(ctx, rratelimiter.Overall, p.Rate, p.Per); err != nil {
		return nil, err
	}
	return p.through(ctx, lane{name: "RRateLimiter", limiter: l, set: set, left: left(l, p.Rate)}, t)
}
