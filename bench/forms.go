package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/concurrency"
	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
	"github.com/redisson-go/rratelimiter/limit/leakybucket"
	"github.com/redisson-go/rratelimiter/limit/limittest"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
)

// The algorithms, by which contestants are compared.
const (
	fixedWindow    = "fixed window"
	slidingCounter = "sliding counter"
	slidingLog     = "sliding log"
	leakyMeter     = "leaky bucket (GCRA)"
	leakyQueue     = "leaky bucket (queue)"
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
	lends     bool // a permit is given back at once, which belongs to a call
}

// natives are all of them, in the order of the tables.
var natives = []native{
	{algorithm: fixedWindow, promise: limittest.FixedWindow, of: func(t terms) forms {
		return fixedwindow.Window{Rate: t.permits, Interval: t.window}
	}},
	{algorithm: slidingCounter, promise: limittest.FixedWindow, of: func(t terms) forms {
		return slidingwindow.Counter{Rate: t.permits, Interval: t.window}
	}},
	{algorithm: slidingLog, promise: limittest.SlidingLog, of: func(t terms) forms {
		return slidingwindow.Log{Rate: t.permits, Interval: t.window}
	}},
	{algorithm: leakyMeter, promise: limittest.TokenBucket, of: func(t terms) forms {
		return leakybucket.Meter{Capacity: t.permits, Rate: t.permits, Interval: t.window}
	}},
	{algorithm: leakyQueue, promise: limittest.Paced, of: func(t terms) forms {
		if t == generous { // more than a permit for each ns
			t = terms{1 << 40, time.Second}
		}
		return leakybucket.Queue{Rate: t.permits, Interval: t.window, Capacity: t.permits}
	}},
	{algorithm: tokenBucket, promise: limittest.TokenBucket, of: func(t terms) forms {
		return tokenbucket.Bucket{Capacity: t.permits, Rate: float64(t.permits), Interval: t.window}
	}},
	{algorithm: concurrent, promise: limittest.SlidingLog, lends: true, of: func(t terms) forms {
		return concurrency.Limit{Most: t.permits, Lease: t.window}
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
	ctx := context.Background()
	return func() (bool, error) {
		r, err := l.Allow(ctx, 1)
		if n.lends && r.Allowed {
			err = l.Release(ctx, 1)
		}
		return r.Allowed, err
	}, err
}

// keyed is a limiter of this library in memory, with keys.
func (n native) keyed(_ *scope, t terms) (keyTry, error) {
	l, err := n.of(t).InMemoryKeyed()
	ctx := context.Background()
	return func(key string) (bool, error) {
		r, err := l.Allow(ctx, key, 1)
		if n.lends && r.Allowed {
			err = l.Release(ctx, key, 1)
		}
		return r.Allowed, err
	}, err
}

// onRedis is a limiter of this library on Redis, with keys.
func (n native) onRedis(_ *scope, rdb *redis.Client, t terms) (keyedAsk, error) {
	return n.by(rdb, t)
}

// by is onRedis with any client.
func (n native) by(rdb redis.UniversalClient, t terms) (keyedAsk, error) {
	l, err := n.of(t).OnRedisKeyed(rdb, "bench")
	return func(ctx context.Context, key string) (bool, error) {
		r, err := l.Allow(ctx, key, 1)
		if n.lends && r.Allowed {
			err = l.Release(ctx, key, 1)
		}
		return r.Allowed, err
	}, err
}
