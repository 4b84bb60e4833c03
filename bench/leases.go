package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A leaseRow is the calls a second of some callers, and the script calls for a thousand of them.
type leaseRow struct {
	Name      string
	PerSecond num
	Scripts   num
}

// leasesData is what the page and the picture show of leases.
type leasesData struct {
	Rows          []leaseRow
	Plain, Leased num   // script calls a second of 100 processes
	Without, With []num // windows (windowsOf)
}

// measureLeases takes permits of limits that are never used up, with leases and without.
func measureLeases(ctx context.Context, s *scope) finding {
	server := redistest.Start(s)
	leases := rratelimiter.WithLease(rratelimiter.LeaseOptions{Max: time.Second})
	limiter := func(opts ...rratelimiter.Option) ask {
		c := s.client(server.Client(s, patient), opts...)
		return tryAcquire(c.RateLimiter(redistest.Name(s)).WithRate(1e12, time.Minute))
	}
	rival := rivalOnRedis("redis_rate").keyed(env{
		s: s, rdb: server.Client(s, patient), name: redistest.Name(s), terms: terms{1e12, time.Minute},
	})
	rows := []struct {
		name    string
		callers int
		once    ask
	}{
		{"redis_rate, 1 caller", 1, func(ctx context.Context) (bool, error) {
			return rival(ctx, "user")
		}},
		{"TryAcquire, 1 caller", 1, limiter()},
		{"TryAcquire, 1 caller, WithLease", 1, limiter(leases)},
		{"TryAcquire, 8 callers", 8, limiter()},
		{"TryAcquire, 8 callers, WithLease", 8, limiter(leases)},
	}
	measured := make([][]flood, len(rows))
	for range s.rounds {
		for i, row := range rows {
			measured[i] = append(measured[i], s.flood(ctx, server, row.callers, row.once, nil))
		}
	}
	var table []leaseRow
	for i, row := range rows {
		m := medians(measured[i])
		table = append(table, leaseRow{row.name, m.PerSecond, 1000 * m.Scripts / m.PerSecond})
	}
	plain, leased := s.pods(ctx, server), s.pods(ctx, server, leases)
	return finding{leasesData{
		Rows: table, Plain: plain, Leased: leased,
		Without: s.windowsOf(ctx, server), With: s.windowsOf(ctx, server, leases),
	}, []target{
		least("T19", "acquires a second WithLease, 1 caller", table[2].PerSecond, 5e6, ""),
		least("T19", "acquires a second WithLease, 8 callers", table[4].PerSecond, 10e6, ""),
		most("T19", "script calls for 1,000 acquires WithLease, 8 callers", table[4].Scripts, 1, ""),
		least("T19", "script calls of 100 processes without leases, to those with them",
			plain/leased, 20, ""),
	}}
}

// pods returns the script calls a second of 100 Clients that take 100 permits a second each.
func (s *scope) pods(ctx context.Context, server *redistest.Server, opts ...rratelimiter.Option) num {
	const pods, every = 100, 10 * time.Millisecond
	name, rdb := redistest.Name(s), server.Client(s, patient)
	limiters := make([]*rratelimiter.RateLimiter, pods)
	for i := range limiters {
		limiters[i] = s.client(rdb, opts...).RateLimiter(name).WithRate(10*pods*6000, time.Minute)
	}
	_, measured := s.spans()
	measured = max(measured, 2*time.Second)
	var failed atomic.Pointer[error]
	run := func(within time.Duration) {
		var all sync.WaitGroup
		ticks := int(within / every)
		for _, l := range limiters {
			all.Go(func() {
				tick := time.NewTicker(every)
				defer tick.Stop()
				for range ticks {
					<-tick.C
					if err := granted(l.TryAcquire(ctx, 1, 0)); err != nil {
						failed.Store(&err)
					}
				}
			})
		}
		all.Wait()
	}
	run(measured) // until the leases have their size
	used := get(usageDuring(ctx, server.Admin(), func() error {
		run(measured)
		if err := failed.Load(); err != nil {
			return *err
		}
		return nil
	}))
	return used.scripts().calls / num(measured.Seconds())
}
