package main

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A bytesResult is what outstanding permits take in Redis.
type bytesResult struct{ plain, merged footprint }

// A footprint is what the three keys of a limiter take.
type footprint struct {
	bytes, permits, records int64
}

func (f footprint) perPermit() float64 { return float64(f.bytes) / float64(max(1, f.permits)) }

func measureBytes(ctx context.Context, s *scope, pl plan) (r *bytesResult, err error) {
	server := redistest.Start(s)
	r = new(bytesResult)
	if r.plain, err = plainFootprint(ctx, s, server, pl); err != nil {
		return nil, err
	}
	r.merged, err = mergedFootprint(ctx, s, server, pl)
	return r, err
}

// plainFootprint measures a record for each permit, which is what callers leave
// who come one by one, as those of Redisson do.
func plainFootprint(ctx context.Context, s *scope, server *redistest.Server, pl plan) (f footprint, err error) {
	name, rdb := redistest.Name(s), server.Admin()
	l := s.client(rdb).RateLimiter(name)
	if _, err := l.TrySetRate(ctx, rratelimiter.Overall, plenty, time.Hour); err != nil {
		return f, err
	}
	if err := addRecords(ctx, rdb, name, pl.records, time.Now()); err != nil {
		return f, err
	}
	if err := rdb.Set(ctx, "{"+name+"}:value", plenty-pl.records, 0).Err(); err != nil {
		return f, err
	}
	if f, err = measureFootprint(ctx, rdb, name); err != nil {
		return f, err
	}
	return f, rdb.FlushDBAsync(ctx).Err()
}

// addRecords writes records of one permit in the format of Redisson: a length,
// 16 random bytes and the permits.
func addRecords(ctx context.Context, rdb *redis.Client, name string, n int, at time.Time) error {
	for n > 0 {
		pipe := rdb.Pipeline()
		for range 20 {
			part := make([]redis.Z, min(n, 500))
			for i := range part {
				b := binary.LittleEndian.AppendUint64([]byte{16}, rand.Uint64())
				b = binary.LittleEndian.AppendUint64(b, rand.Uint64())
				part[i] = redis.Z{Score: float64(at.UnixMilli()), Member: binary.LittleEndian.AppendUint32(b, 1)}
			}
			if n -= len(part); len(part) > 0 {
				pipe.ZAdd(ctx, "{"+name+"}:permits", part...)
			}
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// mergedFootprint has callers of two Clients take one permit at a time, spread
// over the window, with a resolution of a thousandth of it.
func mergedFootprint(ctx context.Context, s *scope, server *redistest.Server, pl plan) (f footprint, err error) {
	name, admin := redistest.Name(s), server.Admin()
	setter := s.client(admin).RateLimiter(name)
	if _, err := setter.TrySetRate(ctx, rratelimiter.Overall, plenty, pl.window); err != nil {
		return f, err
	}
	var (
		taken atomic.Int64
		all   sync.WaitGroup
		errs  [2 * 128]error
	)
	start := time.Now()
	for client := range 2 {
		c := s.client(server.Client(s, patient), rratelimiter.WithResolution(pl.window/1000))
		l := c.RateLimiter(name)
		for i := range len(errs) / 2 {
			all.Go(func() { errs[2*i+client] = takeEvenly(ctx, l, &taken, pl, start) })
		}
	}
	all.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return f, err
	}
	return measureFootprint(ctx, admin, name)
}

// takeEvenly takes permits, one by one, until all callers together have taken
// enough, at the pace at which that takes as long as it should.
func takeEvenly(ctx context.Context, l *rratelimiter.RateLimiter, taken *atomic.Int64, pl plan, start time.Time) error {
	for {
		n := taken.Add(1)
		if n > int64(pl.records) {
			return nil
		}
		at := start.Add(pl.fill / time.Duration(1000) * time.Duration(n*1000/int64(pl.records)))
		time.Sleep(time.Until(at))
		if err := take(ctx, l, 1); err != nil {
			return err
		}
	}
}

// measureFootprint counts what is in the keys of a limiter, all of it: by
// default MEMORY USAGE looks at five records and guesses.
func measureFootprint(ctx context.Context, rdb *redis.Client, name string) (f footprint, err error) {
	records := "{" + name + "}:permits"
	for _, key := range []string{name, "{" + name + "}:value", records} {
		bytes, err := rdb.MemoryUsage(ctx, key, 0).Result()
		if err != nil {
			return f, err
		}
		f.bytes += bytes
	}
	members, err := rdb.ZRange(ctx, records, 0, -1).Result()
	for _, member := range members {
		permits, err := rratelimiter.RecordPermits(member)
		if err != nil {
			return f, err
		}
		f.permits += permits
	}
	f.records = int64(len(members))
	return f, err
}
