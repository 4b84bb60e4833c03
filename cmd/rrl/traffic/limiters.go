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
	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
)

// lanes returns the limiters in memory.
func (p *Plan) lanes(c *clock) ([]lane, error) {
	now := limit.WithClock(c.now)
	var lanes []lane
	window, err := fixedwindow.Window{Rate: p.Rate, Interval: p.Per}.InMemory(now)
	if err != nil {
		return nil, err
	}
	lanes = append(lanes, lane{name: "fixed window", limiter: window, set: c.set, left: left(window, p.Rate)})
	return lanes, nil
}

// shelves returns the limiters with a limit for each key, by name of the algorithm.
func (p *Plan) shelves(c *clock) (map[string]limit.Keyed, error) {
	now := limit.WithClock(c.now)
	window, err := fixedwindow.Window{Rate: p.Rate, Interval: p.Per}.InMemoryKeyed(now)
	if err != nil {
		return nil, err
	}
	return map[string]limit.Keyed{"fixed window": window}, nil
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

// rratelimiter sends a traffic through RRateLimiter, on a miniredis whose clock is set.
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
	return p.through(ctx, lane{
		name: "RRateLimiter", limiter: l, set: set,
		left: func(ctx context.Context) (float64, error) {
			result, err := l.Peek(ctx)
			return float64(result.Remaining) / float64(p.Rate), err
		},
	}, t)
}
