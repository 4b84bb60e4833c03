package main

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/concurrency"
	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
	"github.com/redisson-go/rratelimiter/limit/leakybucket"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
)

// An entrant is a limiter of this library or of another, as all parts measure it that compare algorithms.
type entrant struct {
	algorithm, name string
	ours            bool
	redis           bool // it is on Redis
	piped           bool // its client sends the calls of many callers in one pipeline

	lone  newLimiter // a limiter without keys; nil: one of its keys
	keyed newLimiter // nil: it has no keys
}

type newLimiter func(e env) limiter

type env struct {
	s    *scope
	rdb  redis.UniversalClient
	name string // the beginning of keys in Redis
	terms
}

// A limiter asks for one permit, of a key if it has keys.
type limiter func(ctx context.Context, key string) (bool, error)

// The names of this library in tables, without and with a pipeline.
const (
	oursName  = "this library"
	pipedName = "this library, AutoPipeline"
	benchName = "bench" // of limiters whose speed is measured
)

// entrants are all, each of ours before its rivals.
func entrants(redis bool) (all []entrant) {
	for _, n := range natives {
		same := slices.DeleteFunc(slices.Clone(rivals), func(r entrant) bool {
			return r.algorithm != n.algorithm || r.redis != redis
		})
		contestant := n.memory()
		if redis {
			contestant = n.onRedis()
		}
		all = append(all, contestant)
		if slices.ContainsFunc(same, func(r entrant) bool { return r.piped }) {
			contestant.name = pipedName
			contestant.piped, contestant.keyed = true, piped(contestant.keyed)
			all = append(all, contestant)
		}
		all = append(all, same...)
	}
	return all
}

func rivalOnRedis(name string) entrant {
	return rivals[slices.IndexFunc(rivals, func(r entrant) bool { return r.redis && r.name == name })]
}

// piped is a limiter whose client is the AutoPipeliner of go-redis.
func piped(made newLimiter) newLimiter {
	return func(e env) limiter {
		auto := get(e.rdb.(*redis.Client).AutoPipeline())
		e.s.Cleanup(func() { _ = auto.Close() })
		e.rdb = auto
		return made(e)
	}
}

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

// terms are the limit that a contestant keeps: permits in each window.
type terms struct {
	permits int64
	window  time.Duration
}

// generous are terms under which everything is granted. No window ends while a batch runs: the bucket of
// go-limiter has fewer permits after the first one than before if the square of its permits is more than the
// ns of its window.
var generous = terms{1 << 30, time.Hour}

type native struct {
	algorithm string
	of        func(t terms) formtest.Algorithm
	lends     bool // a permit is given back at once, which belongs to a call
}

var natives = []native{
	{algorithm: fixedWindow, of: func(t terms) formtest.Algorithm {
		return formtest.Of(fixedwindow.Window{Rate: t.permits, Interval: t.window})
	}},
	{algorithm: slidingCounter, of: func(t terms) formtest.Algorithm {
		return formtest.Of(slidingwindow.Counter{Rate: t.permits, Interval: t.window})
	}},
	{algorithm: slidingLog, of: func(t terms) formtest.Algorithm {
		return formtest.Of(slidingwindow.Log{Rate: t.permits, Interval: t.window})
	}},
	{algorithm: leakyMeter, of: func(t terms) formtest.Algorithm {
		return formtest.Of(leakybucket.Meter{Capacity: t.permits, Rate: t.permits, Interval: t.window})
	}},
	{algorithm: leakyQueue, of: func(t terms) formtest.Algorithm {
		if t == generous { // more than a permit for each ns
			t = terms{1 << 40, time.Second}
		}
		return formtest.Of(leakybucket.Queue{Rate: t.permits, Interval: t.window, Capacity: t.permits})
	}},
	{algorithm: tokenBucket, of: func(t terms) formtest.Algorithm {
		b := tokenbucket.Bucket{Capacity: t.permits, Rate: float64(t.permits), Interval: t.window}
		return formtest.Of(b)
	}},
	{algorithm: concurrent, lends: true, of: func(t terms) formtest.Algorithm {
		return formtest.Of(concurrency.Limit{Most: t.permits, Lease: t.window})
	}},
}

func (n native) memory() entrant {
	return entrant{
		algorithm: n.algorithm, name: oursName, ours: true,
		lone: func(e env) limiter {
			l := get(n.of(e.terms).InMemory())
			return func(ctx context.Context, _ string) (bool, error) {
				r, err := l.Allow(ctx, 1)
				if n.lends && r.Allowed {
					err = l.Release(ctx, 1)
				}
				return r.Allowed, err
			}
		},
		keyed: func(e env) limiter { return n.withKeys(get(n.of(e.terms).InMemoryKeyed())) },
	}
}

func (n native) onRedis() entrant {
	return entrant{
		algorithm: n.algorithm, name: oursName, ours: true, redis: true,
		keyed: func(e env) limiter { return n.withKeys(get(n.of(e.terms).OnRedisKeyed(e.rdb, e.name))) },
	}
}

func (n native) withKeys(l limit.KeyedReleaser) limiter {
	return func(ctx context.Context, key string) (bool, error) {
		r, err := l.Allow(ctx, key, 1)
		if n.lends && r.Allowed {
			err = l.Release(ctx, key, 1)
		}
		return r.Allowed, err
	}
}
