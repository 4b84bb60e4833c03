package compat_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// hashFields returns the fields of a hash, in order.
func hashFields(ctx context.Context, hash string) []string {
	GinkgoHelper()
	all, err := look.HGetAll(ctx, hash).Result()
	done(err)
	return slices.Sorted(maps.Keys(all))
}

// lifetimes returns the ms that hash, value and permits have left, rounded up to
// whole tens of seconds.
func lifetimes(ctx context.Context, k keys) (all []int64) {
	GinkgoHelper()
	for _, key := range []string{k.hash, k.value, k.permits} {
		ms, err := roughly(look.Do(ctx, "PTTL", key).Int64())
		done(err)
		all = append(all, ms)
	}
	return all
}

// roughly rounds ms that are left up to whole tens of seconds.
func roughly(ms int64, err error) (int64, error) {
	if ms > 0 {
		ms = (ms + 9999) / 10_000 * 10_000
	}
	return ms, err
}

// A leftover is a record that a client has left, and the value beside it.
type leftover struct {
	format  int
	value   string
	age     time.Duration
	permits byte
}

// leave puts a leftover into a limiter.
func leave(ctx context.Context, k keys, l leftover) {
	GinkgoHelper()
	done(look.Set(ctx, k.value, l.value, redis.KeepTTL).Err())
	score := float64(time.Now().Add(-l.age).UnixMilli())
	done(look.ZAdd(ctx, k.permits, redis.Z{Score: score, Member: recordOf(l.format, l.permits)}).Err())
}

// ages makes the records of a limiter older, or only those of some formats.
func ages(ctx context.Context, k keys, age time.Duration, formats ...int) {
	GinkgoHelper()
	members, err := look.ZRange(ctx, k.permits, 0, -1).Result()
	done(err)
	Expect(members).NotTo(BeEmpty())
	score := float64(time.Now().Add(-age).UnixMilli())
	for _, m := range members {
		if len(formats) == 0 || slices.Contains(formats, formatOf(m)) {
			done(look.ZAdd(ctx, k.permits, redis.Z{Score: score, Member: m}).Err())
		}
	}
}

// recordOf returns a record. Its random bytes are always the same; those of an
// fI begin as most of Redisson's do.
func recordOf(f int, permits byte) string {
	const random = "\xa1\xb2\x13\x24\x35\x46\x57\x68\x79\x8a\x9b\xac\xbd\xce\xdf\xe0"
	count := string([]byte{permits, 0, 0, 0})
	switch f {
	case wire.Bc0I16:
		return "\x10" + random + count
	case wire.Bc0I8:
		return "\x08" + random[:8] + count
	case wire.Lc0I:
		return "\x08\x00\x00\x00\x00\x00\x00\x00" + random[:8] + count
	case wire.FI:
		return "\x88\x10\x89\xdd" + count
	}
	panic(fmt.Sprint("no such format: ", f))
}
