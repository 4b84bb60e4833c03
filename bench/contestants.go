package main

import (
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislimiter"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// The contestants, in the order of the tables.
const (
	floor    = iota // a script that does nothing, one call per caller
	ours            // this library
	alone           // this library, one call per caller
	redisson        // its own code, in the Java peer
	rate            // redis_rate
	fixed           // rueidislimiter
	contestants
)

// labels are their names in the tables.
var labels = [contestants]string{
	floor: "bare EVALSHA", ours: "this library", alone: "one call per caller",
	redisson: "Redisson", rate: "redis_rate", fixed: "rueidislimiter",
}

// Limits are so high that everything is granted. The interval is shorter than
// the warm-up of a batch, so that records expire all the time when it is
// measured: a limiter that never has to look at old ones is no limiter.
const (
	plenty   = 1 << 40
	interval = 100 * time.Millisecond
)

// A maker makes the callers of a batch on a limiter, so many.
type maker func(limiter string, callers int) []ask

// same lets all callers ask the same way.
func same(once ask, callers int) []ask {
	asks := make([]ask, callers)
	for i := range asks {
		asks[i] = once
	}
	return asks
}

func tryAcquire(l *rratelimiter.RateLimiter) ask {
	return func(ctx context.Context) (bool, error) { return l.TryAcquire(ctx, 1, 0) }
}

// newFloor is the least that any limiter with a script can cost.
func newFloor(rdb *redis.Client) maker {
	nothing := redis.NewScript("return 1")
	return func(limiter string, callers int) []ask {
		keys := []string{limiter}
		return same(func(ctx context.Context) (bool, error) { return nothing.Run(ctx, rdb, keys).Bool() }, callers)
	}
}

// newOurs is this library: one RateLimiter that all callers share.
func newOurs(s *scope, rdb *redis.Client) maker {
	client := s.client(rdb)
	return func(limiter string, callers int) []ask {
		return same(tryAcquire(client.RateLimiter(limiter)), callers)
	}
}

// newAlone is this library with a Client for each caller. Callers meet within
// a Client, so each of these sends its own request, all over one pool.
func newAlone(s *scope, rdb *redis.Client) maker {
	var clients []*rratelimiter.Client
	return func(limiter string, callers int) []ask {
		asks := make([]ask, callers)
		for i := range asks {
			if i == len(clients) {
				clients = append(clients, s.client(rdb))
			}
			asks[i] = tryAcquire(clients[i].RateLimiter(limiter))
		}
		return asks
	}
}

// newRate is redis_rate, a leaky bucket by GCRA.
func newRate(rdb *redis.Client) maker {
	l := redis_rate.NewLimiter(rdb)
	limit := redis_rate.Limit{Rate: 1 << 30, Burst: 1 << 30, Period: interval}
	return func(limiter string, callers int) []ask {
		return same(func(ctx context.Context) (bool, error) {
			r, err := l.Allow(ctx, limiter, limit)
			return err == nil && r.Allowed > 0, err
		}, callers)
	}
}

// newFixed is rueidislimiter, which counts in a fixed window, over rueidis,
// which sends what many callers ask for in one pipeline.
func newFixed(s *scope, server *redistest.Server) (maker, error) {
	var rdb rueidis.Client
	l, err := rueidislimiter.NewRateLimiter(rueidislimiter.RateLimiterOption{
		ClientBuilder: func(option rueidis.ClientOption) (_ rueidis.Client, err error) {
			rdb, err = rueidis.NewClient(option)
			return rdb, err
		},
		ClientOption: rueidis.ClientOption{InitAddress: []string{server.Addr}, DisableCache: true},
		Limit:        plenty,
		Window:       interval,
	})
	if err != nil {
		return nil, err
	}
	s.Cleanup(rdb.Close)
	return func(limiter string, callers int) []ask {
		return same(func(ctx context.Context) (bool, error) {
			r, err := l.Allow(ctx, limiter)
			return r.Allowed, err
		}, callers)
	}, nil
}
