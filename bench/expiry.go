package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// An expiryResult is how long the longest script took after all records had
// expired at once, but for some newer ones.
type expiryResult struct {
	newer int
	asked string    // for what
	ms    []float64 // one for each time
}

// What is asked for when the records have expired.
var expiryAsks = []struct {
	what string
	ask  func(ctx context.Context, ls []*rratelimiter.RateLimiter, permits int64) error
}{
	{"one permit each, by four Clients at once", func(ctx context.Context, ls []*rratelimiter.RateLimiter, permits int64) error {
		var all sync.WaitGroup
		errs := make([]error, len(ls))
		for i, l := range ls {
			all.Go(func() {
				for n := int64(0); n < permits/2000+10 && errs[i] == nil; n++ { // twice what it takes to meet all records
					errs[i] = take(ctx, l, 1)
				}
			})
		}
		all.Wait()
		return errors.Join(errs...)
	}},
	{"as many permits at once", func(ctx context.Context, ls []*rratelimiter.RateLimiter, permits int64) error {
		return take(ctx, ls[0], permits)
	}},
}

func measureExpiry(ctx context.Context, s *scope, pl plan) ([]expiryResult, error) {
	// It logs what takes 10 us or longer.
	server := redistest.Start(s, "--slowlog-log-slower-than", "10", "--slowlog-max-len", "10000")
	rdb := server.Admin()
	template := redistest.Name(s)
	if err := addRecords(ctx, rdb, template, pl.records, time.Now().Add(-2*expiryInterval)); err != nil {
		return nil, err
	}
	clients := make([]*rratelimiter.Client, 4)
	for i := range clients {
		clients[i] = s.client(server.Client(s))
	}
	var results []expiryResult
	for _, newer := range pl.newer {
		for _, a := range expiryAsks {
			r := expiryResult{newer: newer, asked: a.what}
			for range pl.expiry {
				name := redistest.Name(s)
				if err := expire(ctx, rdb, template, name, newer, pl.records); err != nil {
					return nil, err
				}
				limiters := make([]*rratelimiter.RateLimiter, len(clients))
				for i, c := range clients {
					limiters[i] = c.RateLimiter(name)
				}
				if err := a.ask(ctx, limiters, int64(pl.records)); err != nil {
					return nil, err
				}
				ms, err := longestScript(ctx, rdb)
				if err != nil {
					return nil, err
				}
				r.ms = append(r.ms, ms)
				if err := rdb.Unlink(ctx, "{"+name+"}:permits").Err(); err != nil {
					return nil, err
				}
			}
			results = append(results, r)
		}
	}
	return results, nil
}

const expiryInterval = time.Minute

// expire makes a limiter whose records have expired, but for the newer ones,
// since somebody has asked last. Its value allows for a few permits only, so
// that who wants as many as have expired gets them when all are counted.
func expire(ctx context.Context, rdb *redis.Client, template, name string, newer, records int) error {
	const value = 1000
	err := rdb.HSet(ctx, name, "rate", value+records+newer, "interval", expiryInterval.Milliseconds(), "type", 0).Err()
	err = errors.Join(err, rdb.Set(ctx, "{"+name+"}:value", value, 0).Err())
	err = errors.Join(err, rdb.Copy(ctx, "{"+template+"}:permits", "{"+name+"}:permits", 0, true).Err())
	err = errors.Join(err, addRecords(ctx, rdb, name, newer, time.Now()))
	return errors.Join(err, rdb.Do(ctx, "slowlog", "reset").Err())
}

// longestScript returns the ms of the longest script in the slow log.
func longestScript(ctx context.Context, rdb *redis.Client) (float64, error) {
	entries, err := rdb.SlowLogGet(ctx, 10000).Result()
	longest := time.Duration(0)
	for _, e := range entries {
		if e.Args[0] == "evalsha" || e.Args[0] == "eval" {
			longest = max(longest, e.Duration)
		}
	}
	return millis(longest), err
}
