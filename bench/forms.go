package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
	"github.com/redisson-go/rratelimiter/limit/limittest"
)

// The algorithms, by which contestants are compared.
const (
	fixedWindow    = "fixed window"
	slidingCounter = "sliding counter"
	slidingLog     = "sliding log"
	leakyMeter     = "leaky bucket (GCRA)"
	tokenBucket    = "token bucket"
	concurrent     = "concurrency"
)

// terms are what a contestant is to grant: so many permits in a window.
type terms struct {
	permits int64
	window  time.Duration
}

// generous are terms under which everything is granted. No window ends while a batch
// runs: the bucket of go-limiter has fewer permits after the first one than before if the
// square of its permits is more than the ns of its window.
var generous = terms{1 << 30, time.Hour}

// forms are what all algorithms of this library have.
type forms interface {
	InMemory(opts ...limit.Option) (limit.Releaser, error)
	InMemoryKeyed(opts ...limit.Option) (limit.KeyedReleaser, error)
	OnRedis(rdb redis.UniversalClient, name string) (limit.Releaser, error)
	OnRedisKeyed(rdb redis.UniversalClient, name string) (limit.KeyedReleaser, error)
}

// A native is an algorithm of this library.
type native struct {
	algorithm string
	promise   limittest.Algorithm
	of        func(t terms) forms
}

// natives are all of them, in the order of the tables.
var natives = []native{
	{fixedWindow, limittest.FixedWindow, func(t terms) forms {
		return fixedwindow.Window{Rate: t.permits, Interval: t.window}
	}},
}

// A try asks for a permit of a limiter, and a keyTry for one of a key.
type (
	try    func() (bool, error)
	keyTry func(key string) (bool, error)
)

// lone is a limiter of this library in memory.
func (n native) lone(_ *scope, t terms) (try, error) {
	l, err := n.of(t).InMemory()
	return func() (bool, error) {
		r, err := l.Allow(context.Background(), 1)
		return r.Allowed, err
	}, err
}

// keyed is a limiter of this library in memory, with keys.
func (n native) keyed(_ *scope, t terms) (keyTry, error) {
	l, err := n.of(t).InMemoryKeyed()
	return func(key string) (bool, error) {
		r, err := l.Allow(context.Background(), key, 1)
		return r.Allowed, err
	}, err
}

// onRedis is a limiter of this library on Redis, with keys.
func (n native) onRedis(_ *scope, rdb *redis.Client, t terms) (keyedAsk, error) {
	l, err := n.of(t).OnRedisKeyed(rdb, "bench")
	return func(ctx context.Context, key string) (bool, error) {
		r, err := l.Allow(ctx, key, 1)
		return r.Allowed, err
	}, err
}
