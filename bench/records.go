package main

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

// addRecords writes n records of one permit in Redisson's format: a length,
// 16 random bytes and the permits. Making them by acquires would take minutes.
func addRecords(ctx context.Context, rdb *redis.Client, name string, n int, at time.Time) error {
	return writeRecords(ctx, rdb, keysOf(name, "").permits, n, func() time.Time { return at })
}

// writeRecords writes n records to a sorted set, 10,000 at a time, each portion
// with the time that it is written at by at.
func writeRecords(ctx context.Context, rdb *redis.Client, key string, n int, at func() time.Time) error {
	const portion, command = 10_000, 500 // Redis does not stop for long at one command of 500
	for n > 0 {
		pipe := rdb.Pipeline()
		score := float64(at().UnixMilli())
		for range portion / command {
			some := make([]redis.Z, min(n, command))
			for i := range some {
				some[i] = redis.Z{Score: score, Member: newRecord()}
			}
			if n -= len(some); len(some) > 0 {
				pipe.ZAdd(ctx, key, some...)
			}
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// newRecord returns a record of one permit that differs from all others.
func newRecord() []byte {
	b := binary.LittleEndian.AppendUint64([]byte{16}, rand.Uint64())
	b = binary.LittleEndian.AppendUint64(b, rand.Uint64())
	return binary.LittleEndian.AppendUint32(b, 1) // the permits
}
