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
	redisson        // Redisson, in the Java peer
	rate            // redis_rate
	fixed           // rueidislimiter
	contestants
)

// labels are the names of the contestants on the page.
var labels = [contestants]string{
	floor: "bare EVALSHA", ours: "this library", alone: "one call per caller",
	redisson: "Redisson", rate: "redis_rate", fixed: "rueidislimiter",
}

// shown is the order in which a reader compares: this library, its rivals, and
// then what explains the figures.
var shown = []int{ours, redisson, rate, fixed, alone, floor}

// reasons say why a rival can be faster than this library.
var reasons = [contestants]string{
	redisson: "Its script does not note which request was charged: a request that is sent again after its " +
		"reply was lost can be charged twice.",
	rate: "It stores one time per limiter and no record of a grant, so a call is one GET and one SET. " +
		"It limits the mean rate, not the permits in each interval.",
	fixed: "It stores one count per fixed window and no record of a grant. At the edge of two windows it " +
		"can grant twice the limit within one interval. Its client sends the calls of many callers in one " +
		"pipeline.",
}

// The limit of every contestant.
const (
	// plenty is a rate that no part comes near: every acquire is granted.
	plenty = 1 << 40

	// interval is shorter than the warm-up of a batch, so that records expire
	// all the time while it is measured. A limiter that never has to remove old
	// records is not what people run.
	interval = 100 * time.Millisecond
)

// An ask asks for one permit, and reports whether it was granted.
type ask func(ctx context.Context) (bool, error)

// A maker makes the asks of a batch of callers on one limiter.
type maker func(limiter string, callers int) []ask

// one returns the ask of a lone caller.
func (m maker) one(limiter string) ask { return m(limiter, 1)[0] }

// same lets all callers share one ask.
func same(once ask, callers int) []ask {
	asks := make([]ask, callers)
	for i := range asks {
		asks[i] = once
	}
	return asks
}

// tryAcquire asks without waiting.
func tryAcquire(l *rratelimiter.RateLimiter) ask {
	return func(ctx context.Context) (bool, error) { return l.TryAcquire(ctx, 1, 0) }
}

// newFloor is the least that any limiter with a script can cost: a script that
// does nothing, sent by go-redis.
func newFloor(rdb *redis.Client) maker {
	nothing := redis.NewScript("return 1")
	return func(limiter string, callers int) []ask {
		limiterKeys := []string{limiter}
		return same(func(ctx context.Context) (bool, error) {
			return nothing.Run(ctx, rdb, limiterKeys).Bool()
		}, callers)
	}
}

// newOurs is this library: one RateLimiter that all callers share.
func newOurs(s *scope, rdb *redis.Client) maker {
	client := s.client(rdb)
	return func(limiter string, callers int) []ask {
		return same(tryAcquire(client.RateLimiter(limiter)), callers)
	}
}

// newAlone is this library with a Client for each caller, all over one pool.
// Requests are merged within a Client, so each of these callers sends its own.
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
	// 2^30: its script reckons in seconds per permit, which must not become 0.
	limit := redis_rate.Limit{Rate: 1 << 30, Burst: 1 << 30, Period: interval}
	return func(limiter string, callers int) []ask {
		return same(func(ctx context.Context) (bool, error) {
			r, err := l.Allow(ctx, limiter, limit)
			return err == nil && r.Allowed > 0, err
		}, callers)
	}
}

// newFixed is rueidislimiter, a count per fixed window. Its client, rueidis,
// sends the calls of many callers in one pipeline.
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
