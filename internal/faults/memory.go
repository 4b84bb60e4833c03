package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// OfMemory are faults of a server whose memory is full, and what that does to keys.
var OfMemory = []Fault{
	{Name: "the memory is full, and nothing may go", Errors: []string{"OOM"},
		Break: func(ctx context.Context, r *Round) error {
			admin := r.Server.Admin()
			err := admin.ConfigSet(ctx, "maxmemory", "1").Err()
			wait(ctx, broken)
			return errors.Join(err, admin.ConfigSet(ctx, "maxmemory", "0").Err())
		}},
	{Name: "the memory is full, and any key may go", Errors: []string{notInitialized, "OOM"}, Break: evict},
	{Name: "the configuration is evicted", Errors: []string{notInitialized},
		Break: func(ctx context.Context, r *Round) error {
			return r.evicts(ctx, r.Name, 0, "the limiter starts full when its rate is set again")
		}},
	{Name: "the value is evicted",
		Break: func(ctx context.Context, r *Round) error {
			return r.evicts(ctx, "{"+r.Name+"}:value", limit.Interval, lostValue)
		}},
	{Name: "the records are evicted",
		Break: func(ctx context.Context, r *Round) error {
			return r.evicts(ctx, "{"+r.Name+"}:permits", 0, "no records: nothing is outstanding")
		}},
}

// lostValue is why the limit does not hold for an interval after a value was lost: Java
// starts with a full one, and adds the permits of old records as they expire. The specs
// of faults (B19) show how Go treats a value that is lost alone.
const lostValue = "Java takes a lost value for a new limiter, beside its old records (B19)"

// evicts removes one key three times, as an eviction does. For the duration after, the
// limit may not hold.
func (r *Round) evicts(ctx context.Context, key string, after time.Duration, why string) error {
	return often(ctx, 3, func() error {
		since := time.Now()
		err := r.Server.Admin().Del(ctx, key).Err()
		r.lose(since, time.Now().Add(after), why)
		return err
	})
}

// evict fills the memory so that keys go, and those of the limiter among them.
func evict(ctx context.Context, r *Round) error {
	const fillers, size = 12, 64 << 10
	admin := r.Server.Admin()
	since := time.Now()
	memory := admin.InfoMap(ctx, "memory")
	used, err := strconv.ParseInt(memory.Item("Memory", "used_memory"), 10, 64)
	if err = cmp.Or(memory.Err(), err); err != nil {
		return err
	}
	err = errors.Join(admin.ConfigSet(ctx, "maxmemory-policy", "allkeys-random").Err(),
		admin.ConfigSet(ctx, "maxmemory", fmt.Sprint(used+fillers*size)).Err())
	for end := since.Add(broken); err == nil && time.Now().Before(end); wait(ctx, 5*time.Millisecond) {
		filler := fmt.Sprint("filler", rand.Int64())
		err = admin.Set(ctx, filler, strings.Repeat("x", size), 0).Err()
		if err != nil && strings.HasPrefix(err.Error(), "OOM") {
			err = nil
		}
	}
	err = errors.Join(err, admin.ConfigSet(ctx, "maxmemory", "0").Err())
	r.lose(since, time.Now().Add(limit.Interval),
		"keys were evicted until then, at moments that only Redis knows")
	stats := admin.InfoMap(ctx, "stats")
	if n := stats.Item("Stats", "evicted_keys"); n == "" || n == "0" {
		err = errors.Join(err, stats.Err(), errors.New("nothing was evicted"))
	}
	return err
}
