package main

import (
	"context"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislimiter"
	goredisstore "github.com/throttled/throttled/v2/store/goredisstore.v9"
)

// A redisEntrant is a limiter on Redis with keys, of this library or of another.
type redisEntrant struct {
	algorithm, name string
	keyed           func(s *scope, rdb *redis.Client, t terms) (keyedAsk, error)
}

// redisEntrants are all, each of ours before its rivals.
func redisEntrants() (all []redisEntrant) {
	for _, n := range natives {
		all = append(all, redisEntrant{n.algorithm, oursName, n.onRedis})
		for _, r := range redisRivals {
			if r.algorithm == n.algorithm {
				all = append(all, r)
			}
		}
	}
	return all
}

var redisRivals = []redisEntrant{
	{fixedWindow, "ulule/limiter", byUser(newUserUlule)},
	{fixedWindow, "rueidislimiter", newRueidis},
	{slidingCounter, "httprate-redis", byUser(newUserCounter)},
	{leakyMeter, "redis_rate", byUser(newUserRate)},
	{leakyMeter, "throttled", newThrottledRedis},
}

// byUser is a contestant of the part users.
func byUser(made userMaker) func(*scope, *redis.Client, terms) (keyedAsk, error) {
	return func(s *scope, rdb *redis.Client, t terms) (keyedAsk, error) {
		return made(s, rdb, t.permits, t.window)
	}
}

// newRueidis has a client of its own, to the same address.
func newRueidis(s *scope, rdb *redis.Client, t terms) (keyedAsk, error) {
	var client rueidis.Client
	l, err := rueidislimiter.NewRateLimiter(rueidislimiter.RateLimiterOption{
		ClientBuilder: func(option rueidis.ClientOption) (_ rueidis.Client, err error) {
			client, err = rueidis.NewClient(option)
			return client, err
		},
		ClientOption: rueidis.ClientOption{InitAddress: []string{rdb.Options().Addr}, DisableCache: true},
		Limit:        int(t.permits), Window: t.window,
	})
	if err != nil {
		return nil, err
	}
	s.Cleanup(client.Close)
	return func(ctx context.Context, key string) (bool, error) {
		r, err := l.Allow(ctx, key)
		return r.Allowed, err
	}, nil
}

func newThrottledRedis(_ *scope, rdb *redis.Client, t terms) (keyedAsk, error) {
	store, err := goredisstore.NewCtx(rdb, "throttled:")
	if err != nil {
		return nil, err
	}
	l, err := newThrottled(store, t)
	return func(ctx context.Context, key string) (bool, error) {
		limited, _, err := l.RateLimitCtx(ctx, key, 1)
		return !limited, err
	}, err
}
