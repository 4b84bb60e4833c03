package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// bytesPart shows what an exact limit costs in memory: each grant is a record
// until its interval is over. It is the reason for WithResolution.
var bytesPart = &part{
	name: "bytes", set: setPage, measure: measureBytes,
	about: "memory in Redis of a million permits that are outstanding",
}

// A footprint is what the three keys of a limiter take in Redis.
type footprint struct {
	Name             string
	Bytes            int64
	Permits, Records int64   // outstanding
	PerPermit        float64 // bytes
}

// A bytesData is both footprints: what a limiter takes by default, and what it
// takes with WithResolution.
type bytesData struct{ Kinds []footprint }

// measureBytes measures a record for each permit, and then few records of many
// permits each.
func measureBytes(ctx context.Context, s *scope) (finding, error) {
	server := redistest.Start(s)
	records := amount(s, 1_000_000, 12_000)
	plain, err := plainFootprint(ctx, s, server, records)
	if err != nil {
		return finding{}, err
	}
	merged, err := mergedFootprint(ctx, s, server, records)
	if err != nil {
		return finding{}, err
	}
	plain.Name, merged.Name = "a record for each permit", "resolution of a thousandth of the window"
	return finding{&bytesData{[]footprint{plain, merged}}, []target{
		most("T5", fmt.Sprintf("%s permits outstanding, resolution of a thousandth of the window: in Redis",
			thousands(float64(merged.Permits))), float64(merged.Bytes)/1000, 200, " KB"),
	}}, nil
}

// plainFootprint measures a record for each permit. That is what callers leave
// that come one by one, as those of Redisson do.
func plainFootprint(ctx context.Context, s *scope, server *redistest.Server, records int) (
	f footprint, err error,
) {
	name, rdb := redistest.Name(s), server.Admin()
	l := s.client(rdb).RateLimiter(name)
	if _, err := l.TrySetRate(ctx, rratelimiter.Overall, plenty, time.Hour); err != nil {
		return f, err
	}
	if err := addRecords(ctx, rdb, name, records, time.Now()); err != nil {
		return f, err
	}
	// The value that acquires would have left: its length counts, too.
	if err := rdb.Set(ctx, keysOf(name, "").value, plenty-records, 0).Err(); err != nil {
		return f, err
	}
	if f, err = measureFootprint(ctx, rdb, name); err != nil {
		return f, err
	}
	return f, rdb.FlushDBAsync(ctx).Err()
}

// mergedFootprint lets callers of two Clients take one permit at a time, spread
// over most of the window, with a resolution of a thousandth of it.
func mergedFootprint(ctx context.Context, s *scope, server *redistest.Server, records int) (
	f footprint, err error,
) {
	// The window is a little longer than the taking: no record expires before
	// it is counted.
	window := amount(s, 10*time.Second, time.Second)
	taking := amount(s, 9*time.Second, 200*time.Millisecond)
	name, admin := redistest.Name(s), server.Admin()
	setter := s.client(admin).RateLimiter(name)
	if _, err := setter.TrySetRate(ctx, rratelimiter.Overall, plenty, window); err != nil {
		return f, err
	}
	var ls [2]*rratelimiter.RateLimiter
	for i := range ls {
		c := s.client(server.Client(s, patient), rratelimiter.WithResolution(window/1000))
		ls[i] = c.RateLimiter(name)
	}
	start := time.Now()
	err = inParallel(256, records, func(i int) error { // 128 callers of each Client
		pace := taking / 1000 * time.Duration(i*1000/records) // in steps of a thousandth
		time.Sleep(time.Until(start.Add(pace)))
		return take(ctx, ls[i%2], 1)
	})
	if err != nil {
		return f, err
	}
	return measureFootprint(ctx, admin, name)
}

// measureFootprint counts all elements of a limiter's keys. By default MEMORY
// USAGE looks at five records and guesses.
func measureFootprint(ctx context.Context, rdb *redis.Client, name string) (f footprint, err error) {
	k := keysOf(name, "")
	for _, key := range []string{k.hash, k.value, k.permits} {
		used, err := rdb.MemoryUsage(ctx, key, 0).Result()
		if err != nil {
			return f, err
		}
		f.Bytes += used
	}
	// Permits are read from the records, not assumed: a record of many permits is
	// what a resolution is for.
	members, err := rdb.ZRange(ctx, k.permits, 0, -1).Result()
	for _, member := range members {
		permits, err := wire.Permits(member)
		if err != nil {
			return f, err
		}
		f.Permits += permits
	}
	f.Records = int64(len(members))
	f.PerPermit = float64(f.Bytes) / float64(max(1, f.Permits))
	return f, err
}
