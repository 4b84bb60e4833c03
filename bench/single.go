package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// measureWake lets one Client wait for the permit that another one releases. By itself the permit comes back
// only after an hour.
func measureWake(ctx context.Context, s *scope) finding {
	server, name := redistest.Start(s), redistest.Name(s)
	waiter := s.client(server.Client(s)).RateLimiter(name)
	releaser := s.client(server.Client(s)).RateLimiter(name)
	get(releaser.TrySetRate(ctx, rratelimiter.Overall, 1, time.Hour))
	must(take(ctx, releaser, 1))
	// A released permit goes to the waiter, so the limiter is empty again for the next round.
	took := make([]time.Duration, amount(s, 300, 3)) // 300: three beyond the p99
	for i := range took {
		// The buffer lets the waiter end when this function returns early.
		served := make(chan error, 1)
		go func() { served <- waiter.Acquire(ctx, 1) }()
		listens(ctx, server.Admin(), name)
		start := time.Now()
		must(releaser.Release(ctx, 1))
		must(<-served)
		took[i] = time.Since(start)
	}
	all := spreadOf(took)
	p99 := all.P99 / 1000
	return finding{
		struct {
			Wakes    int
			P50, P99 num
		}{len(took), all.P50 / 1000, p99},
		[]target{most("T6", "a Release elsewhere wakes a waiter, p99", p99, 5, " ms")},
	}
}

// listens returns when a waiter is subscribed to the changes of a limiter, and has had the time for its last
// look after that. A release before that look would be found by the look, and not by the message that is
// measured.
func listens(ctx context.Context, admin *redis.Client, name string) {
	channel := wire.ChangedOf(name)
	for {
		n := get(admin.PubSubNumSub(ctx, channel).Result())
		time.Sleep(3 * time.Millisecond) // many round trips
		if n[channel] > 0 {
			return
		}
	}
}

// measureIdle uses one limiter after the other, each by a RateLimiter that is dropped at once. A service with
// a limiter for each of its users must not grow with them.
func measureIdle(ctx context.Context, s *scope) finding {
	server := redistest.Start(s)
	admin := server.Admin()
	c := s.client(server.Client(s, patient))
	names := amount(s, 1_000_000, 200)
	const portion = 10_000 // at a time, so that Redis does not need memory for all
	before := num(0)
	// The first portion makes connections, and what is made once.
	for done := -min(portion, names); done < names; done += portion {
		if done >= 0 && before == 0 {
			before = heapMB()
		}
		touch(ctx, admin, c, fmt.Sprint(done), min(portion, names-done))
	}
	after := heapMB()
	runtime.KeepAlive(c) // or what it keeps would be garbage, too
	what := fmt.Sprintf("heap after touching %s names, beyond that before", thousands(float64(names)))
	return finding{struct {
		Names         int
		Before, After num // MB of heap
	}{names, before, after}, []target{most("T8", what, after-before, 5, " MB")}}
}

// touch makes n limiters, takes a permit of each and deletes them.
func touch(ctx context.Context, admin *redis.Client, c *rratelimiter.Client, prefix string, n int) {
	name := func(i int) string { return fmt.Sprint(prefix, ":", i) }
	// Their hashes are written in one pipeline: a TrySetRate for each would be another use of the name, and
	// take twice as long.
	pipe := admin.Pipeline()
	for i := range n {
		pipe.HSet(ctx, name(i), "rate", 1, "interval", 60_000, "type", 0)
	}
	get(pipe.Exec(ctx))
	// 64 callers keep both processors busy; the order of the names is not measured.
	must(inParallel(64, n, func(i int) error { return take(ctx, c.RateLimiter(name(i)), 1) }))
	must(admin.FlushDBAsync(ctx).Err())
}

type footprint struct {
	Name             string
	Bytes            int64
	Permits, Records int64 // outstanding
	PerPermit        num   // bytes
}

// measureBytes measures a record for each permit, and then few records of many permits each.
func measureBytes(ctx context.Context, s *scope) finding {
	server := redistest.Start(s)
	records := amount(s, 1_000_000, 12_000)
	kinds := []footprint{
		{Name: "a record for each permit"}, {Name: "resolution of a thousandth of the window"},
	}
	for i, fill := range []func(context.Context, *scope, *redistest.Server, string, int){plain, merged} {
		name, admin := redistest.Name(s), server.Admin()
		fill(ctx, s, server, name, records)
		kinds[i].measure(ctx, admin, name)
		must(admin.FlushDBAsync(ctx).Err())
	}
	few := kinds[1]
	what := thousands(float64(few.Permits)) + " permits outstanding, " + few.Name + ": in Redis"
	return finding{
		struct{ Kinds []footprint }{kinds}, []target{most("T5", what, num(few.Bytes)/1000, 200, " KB")},
	}
}

// plain writes a record for each permit. That is what callers leave that come one by one, as those of
// Redisson do.
func plain(ctx context.Context, s *scope, server *redistest.Server, name string, records int) {
	rdb := server.Admin()
	get(s.client(rdb).RateLimiter(name).TrySetRate(ctx, rratelimiter.Overall, plenty, time.Hour))
	must(addRecords(ctx, rdb, name, records, time.Now()))
	// The value that acquires would have left, because its length counts as well.
	must(rdb.Set(ctx, pairOf(name).Value, plenty-records, 0).Err())
}

// merged lets callers of two Clients take one permit at a time, spread over most of the window, with a
// resolution of a thousandth of it.
func merged(ctx context.Context, s *scope, server *redistest.Server, name string, records int) {
	// The window is a little longer than the taking: no record expires before it is counted.
	window := amount(s, 10*time.Second, time.Second)
	taking := amount(s, 9*time.Second, 200*time.Millisecond)
	var ls [2]*rratelimiter.RateLimiter
	for i := range ls {
		c := s.client(server.Client(s, patient), rratelimiter.WithResolution(window/1000))
		ls[i] = c.RateLimiter(name)
	}
	get(ls[0].TrySetRate(ctx, rratelimiter.Overall, plenty, window))
	start := time.Now()
	must(inParallel(256, records, func(i int) error { // 128 callers of each Client
		pace := taking / 1000 * time.Duration(i*1000/records) // in steps of a thousandth
		time.Sleep(time.Until(start.Add(pace)))
		return take(ctx, ls[i%2], 1)
	}))
}

// measure counts all elements of a limiter's keys. By default MEMORY USAGE looks at five records and guesses.
func (f *footprint) measure(ctx context.Context, rdb *redis.Client, name string) {
	pair := pairOf(name)
	for _, key := range []string{name, pair.Value, pair.Permits} {
		used := get(rdb.MemoryUsage(ctx, key, 0).Result())
		f.Bytes += used
	}
	// Permits are read from the records, not assumed: a record of many permits is what a resolution is for.
	members := get(rdb.ZRange(ctx, pair.Permits, 0, -1).Result())
	for _, member := range members {
		permits := get(wire.Permits(member))
		f.Permits += permits
	}
	f.Records = int64(len(members))
	f.PerPermit = num(f.Bytes) / num(max(1, f.Permits))
}

// An expiryRow is how long the longest script took, in ms, after all records had expired at once, but for
// some newer ones.
type expiryRow struct {
	Newer         int
	Asked         string // for what
	Median, Worst num
}

// measureExpiry measures every combination of newer records and of what callers ask for. Small asks can leave
// most records to later calls; one large ask must count them all. The expired records are written once and
// copied: writing a million takes longer than measuring.
func measureExpiry(ctx context.Context, s *scope) finding {
	server, template, records := redistest.Start(s), redistest.Name(s), amount(s, 1_000_000, 12_000)
	rdb := server.Admin()
	must(addRecords(ctx, rdb, template, records, time.Now().Add(-2*expiryInterval)))
	var clients []*rratelimiter.Client
	for range 4 {
		clients = append(clients, s.client(server.Client(s)))
	}
	asks := []func(name string) error{
		func(name string) error {
			// A call removes some thousand records. These are twice as many calls as it takes to remove all.
			return inParallel(len(clients), len(clients)*(records/2000+10), func(i int) error {
				return take(ctx, clients[i%len(clients)].RateLimiter(name), 1)
			})
		},
		func(name string) error { return take(ctx, clients[0].RateLimiter(name), int64(records)) },
	}
	var rows []expiryRow
	var targets []target
	for _, newer := range amount(s, []int{0, 9_999, 20_000}, []int{0, 100}) { // not all to be read
		names := []string{"one permit each, by four Clients at once", "as many permits at once"}
		for i, asked := range names {
			var longest []num
			for range amount(s, 5, 1) {
				name := redistest.Name(s)
				must(expire(ctx, rdb, [2]string{template, name}, records, newer))
				ms := get(longestScript(ctx, rdb, name, func() error { return asks[i](name) }))
				must(rdb.Unlink(ctx, pairOf(name).Permits).Err())
				longest = append(longest, ms)
			}
			row := expiryRow{newer, asked, quantile(longest, 0.5), quantile(longest, 1)}
			rows, targets = append(rows, row), append(targets, most("T5", fmt.Sprintf(
				"%s records expire at once, %s newer ones count, asked for %s: longest script",
				thousands(float64(records)), thousands(float64(newer)), asked), row.Median, 5, " ms"))
		}
	}
	return finding{struct {
		Records int
		Rows    []expiryRow
	}{records, rows}, targets}
}

// expiryInterval is longer than a run, so that the newer records do not expire.
const expiryInterval = time.Minute

// expire makes a limiter whose records, but for the newer ones, have expired since it was used last. Its
// value allows few permits: for as many as have expired, all of them must be counted.
func expire(ctx context.Context, rdb *redis.Client, names [2]string, records, newer int) error {
	template, name := names[0], names[1]
	const value = 1000
	pair, rate, ms := pairOf(name), value+records+newer, expiryInterval.Milliseconds()
	return errors.Join(
		rdb.HSet(ctx, name, "rate", rate, "interval", ms, "type", 0).Err(),
		rdb.Set(ctx, pair.Value, value, 0).Err(),
		rdb.Copy(ctx, pairOf(template).Permits, pair.Permits, 0, true).Err(),
		addRecords(ctx, rdb, name, newer, time.Now()),
	)
}
