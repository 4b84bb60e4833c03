package main

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislimiter"
	goredisstore "github.com/throttled/throttled/v2/store/goredisstore.v9"
)

// A redisEntrant is a limiter on Redis with keys, of this library or of another.
type redisEntrant struct {
	algorithm, name string
	keyed           func(s *scope, rdb *redis.Client, t terms) (keyedAsk, error)
	piped           bool // its client sends the calls of many callers in one pipeline
}

// pipedName is the name of this library where its client does that.
const pipedName = "this library, AutoPipeline"

// ours reports whether an entrant is of this library.
func (e redisEntrant) ours() bool { return e.name == oursName || e.name == pipedName }

// redisEntrants are all, each of ours before its rivals.
func redisEntrants() (all []redisEntrant) {
	for _, n := range natives {
		rivals := slices.DeleteFunc(slices.Clone(redisRivals), func(r redisEntrant) bool {
			return r.algorithm != n.algorithm
		})
		all = append(all, redisEntrant{n.algorithm, oursName, n.onRedis, false})
		if slices.ContainsFunc(rivals, func(r redisEntrant) bool { return r.piped }) {
			all = append(all, redisEntrant{n.algorithm, pipedName, piped(n.by), true})
		}
		all = append(all, rivals...)
	}
	return all
}

var redisRivals = []redisEntrant{
	{fixedWindow, "ulule/limiter", byUser(newUserUlule), false},
	{fixedWindow, "rueidislimiter", newRueidis, true},
	{slidingCounter, "httprate-redis", byUser(newUserCounter), false},
	{leakyMeter, "redis_rate", byUser(newUserRate), false},
	{leakyMeter, "redis_rate, AutoPipeline", piped(pipedRate), true},
	{leakyMeter, "throttled", newThrottledRedis, false},
}

// piped is a contestant whose client is the AutoPipeliner of go-redis.
func piped(by func(redis.UniversalClient, terms) (keyedAsk, error)) func(*scope, *redis.Client,
	terms) (keyedAsk, error) {
	return func(s *scope, rdb *redis.Client, t terms) (keyedAsk, error) {
		auto, err := rdb.AutoPipeline()
		if err != nil {
			return nil, err
		}
		s.Cleanup(func() { _ = auto.Close() })
		return by(auto, t)
	}
}

func pipedRate(rdb redis.UniversalClient, t terms) (keyedAsk, error) {
	return rateBy(rdb, t.permits, t.window)
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
