package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// floodCallers is how many callers make refused calls at once.
const floodCallers = 8

// A flood is one round of refused calls.
type flood struct{ PerSecond, Scripts num } // calls, and script calls a second

type floodRow struct {
	Name string
	flood
}

// measureRefusals lets callers ask for permits of one limiter, all of which are taken.
func measureRefusals(ctx context.Context, s *scope) finding {
	server := redistest.Start(s)
	plain := s.client(server.Client(s, patient))
	cached := s.client(server.Client(s, patient), rratelimiter.WithRefusalCache(time.Minute))
	allow := func(l *rratelimiter.RateLimiter) ask {
		return func(ctx context.Context) (bool, error) {
			r, err := l.Allow(ctx, 1)
			return r.Allowed, err
		}
	}
	limiter := func(c *rratelimiter.Client) *rratelimiter.RateLimiter {
		return c.RateLimiter(redistest.Name(s)).WithRate(1, time.Hour)
	}
	users := cached.Keyed(redistest.Name(s), 1, time.Hour)
	rival := rivalOnRedis("redis_rate").keyed(env{
		s: s, rdb: server.Client(s, patient), name: redistest.Name(s), terms: terms{1, time.Hour},
	})
	rows := []struct {
		name string
		once ask
	}{
		{"redis_rate", func(ctx context.Context) (bool, error) { return rival(ctx, "user") }},
		{"Allow", allow(limiter(plain))},
		{"Allow, WithRefusalCache", allow(limiter(cached))},
		{"TryAcquire, WithRefusalCache", tryAcquire(limiter(cached))},
		{"Allow of a user, WithRefusalCache", func(ctx context.Context) (bool, error) {
			r, err := users.Allow(ctx, "user", 1)
			return r.Allowed, err
		}},
	}
	floods := make([][]flood, len(rows))
	for range s.rounds {
		for i, row := range rows {
			floods[i] = append(floods[i], s.flood(ctx, server, floodCallers, row.once, errRefused))
		}
	}
	var table []floodRow
	for i, row := range rows {
		table = append(table, floodRow{row.name, medians(floods[i])})
	}
	try := table[3]
	return finding{struct {
		Callers int
		Rows    []floodRow
	}{floodCallers, table}, []target{
		least("T18", "refused calls a second, WithRefusalCache: TryAcquire", try.PerSecond, 20e6, ""),
		most("T18", "refused calls, WithRefusalCache: script calls a second", try.Scripts, 1000, ""),
	}}
}

// flood makes calls for a span, all of which end as wanted but for the first one.
func (s *scope) flood(
	ctx context.Context, server *redistest.Server, callers int, once ask, wanted error,
) flood {
	_ = granted(once(ctx)) // of a limit of one permit, this takes it
	var calls atomic.Int64
	var took time.Duration
	_, measured := s.spans()
	used := get(usageDuring(ctx, server.Admin(), func() error {
		var all sync.WaitGroup
		start := time.Now()
		errs := make([]error, callers)
		for i := range errs {
			all.Go(func() {
				for time.Since(start) < measured && errs[i] == nil {
					for range 100 {
						if err := granted(once(ctx)); !errors.Is(err, wanted) {
							errs[i] = errors.Join(errs[i], err)
						}
					}
					calls.Add(100)
				}
			})
		}
		all.Wait()
		took = time.Since(start)
		return errors.Join(errs...)
	}))
	seconds := num(took.Seconds())
	return flood{num(calls.Load()) / seconds, used.scripts().calls / seconds}
}
