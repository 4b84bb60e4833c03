package rratelimiter

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/host"
	"github.com/redisson-go/rratelimiter/internal/outage"
	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// A Redis is the rdb of a Client, for OnRedis of the packages under limit/. Limiters that are made on it
// behave like those of the Client: its budget and its circuit, its Fallback, its Observer and SetLimiting
// apply to them, and after Close their calls return ErrClosed. The Observer sees each request of a Reserve.
//
// FallbackLocal is the same limiter in the memory of this process, with its whole rate, whatever Redis has
// granted before, and for about 5,000 keys. It also decides Peek, Charge and Release; with the other
// fallbacks they return the error. A concurrency.Lease or a Wait that would be denied returns the
// error.
//
// Other options, such as WithNameMapper and WithMinReplicas, do not apply to these limiters. Other commands
// go to rdb as it is. pubsub.New needs rdb itself, because a Redis does not show the servers of a cluster.
type Redis struct {
	redis.UniversalClient
	client *Client
	policy outage.Policy
}

// Redis returns an rdb for OnRedis of the packages under limit/, which gives their limiters the Fallback and
// the Observer of the Client: tokenbucket.Bucket{…}.OnRedis(client.Redis(), "api").
func (c *Client) Redis() Redis { return Redis{c.host.Redis, c, c.policy} }

// WithFallback returns a Redis whose limiters fall back to f, as RateLimiter.WithFallback does.
func (r Redis) WithFallback(f Fallback) Redis {
	r.policy = r.policy.With(int(f))
	return r
}

// of returns r, also if the type of a caller embeds it.
func (r Redis) of() Redis { return r }

// redisOf returns the Redis of a Client that rdb is, or nil.
func redisOf(rdb redis.UniversalClient) *Redis {
	of, ok := rdb.(interface{ of() Redis })
	if !ok || redisx.IsNil(rdb) {
		return nil
	}
	return new(of.of())
}

// host returns the Host of the limiters.
func (r Redis) host() *host.Host {
	if r.client == nil {
		err := failure.InvalidOf("OnRedis", "rdb", "a zero Redis", "be that of a Client")
		return &host.Host{Err: err}
	}
	h := r.client.host
	h.Ask = func(
		ctx context.Context, name string, call func(ctx context.Context) error,
	) (host.Instead, error) {
		return r.client.guard.Ask(ctx, name, r.policy, call)
	}
	if h.Err == nil {
		h.Err = failure.Misconfigured(r.policy.Validate(failure.Invalid))
	}
	return &h
}
