package traffic

import (
	"context"
	"net"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/redisson-go/rratelimiter"
)

const rratelimiterName = "RRateLimiter"

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
	return p.through(ctx, lane{
		name: rratelimiterName, limiter: l, set: set,
		left: func(ctx context.Context) (float64, error) {
			result, err := l.Peek(ctx)
			return float64(result.Remaining) / float64(p.Rate), err
		},
	}, t)
}
