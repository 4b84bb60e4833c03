package faults

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// OfMemory are faults of a server whose memory is full, and evictions of keys.
var OfMemory = []Fault{
	{Name: "the memory is full, and nothing may go", Errors: []string{"OOM"}, Break: func(r *Round) {
		r.config("maxmemory", "1")
		r.wait(broken)
		r.config("maxmemory", "0")
	}},
	{Name: "the memory is full, and any key may go", Errors: []string{notInitialized, "OOM"}, Break: evict},
	{Name: "the configuration is evicted", Errors: []string{notInitialized}, Break: func(r *Round) {
		r.evicts(r.Server.Admin(), 3, r.Name, 0, "the limiter starts full when its rate is set again")
	}},
	{Name: "the value is evicted", Break: func(r *Round) {
		r.evicts(r.Server.Admin(), 3, "{"+r.Name+"}:value", lasting, lostValue)
		r.wait(lasting) // then the limit holds again
	}},
	{Name: "the records are evicted", Break: func(r *Round) {
		r.evicts(r.Server.Admin(), 3, "{"+r.Name+"}:permits", 0, "no records: nothing is outstanding")
	}},
}

// lostValue is why the limit does not hold for a while after a value was lost: Java starts with a full one,
// and adds the permits of old records as they expire. Go sums the records once an interval, when the oldest
// ones expire, unless Java has just removed them: then in the next interval. The states of B19 show how Go
// treats a lost value without Java.
const lostValue = "Java takes a lost value for a new limiter, beside its old records (B19)"

// lasting is how long a lost value matters: more consecutive intervals than Java can hide from Go.
var lasting = 4 * limit.Interval

// evicts removes a key a number of times, as an eviction does. The limit need not hold
// until after has passed.
func (r *Round) evicts(rdb *redis.Client, times int, key string, after time.Duration, why string) {
	r.often(times, func() error {
		since := time.Now()
		err := rdb.Del(r.ctx, key).Err()
		r.lose(since, time.Now().Add(after), why)
		return err
	})
}

// evict fills the memory until Redis evicts keys, those of the limiter among them.
func evict(r *Round) {
	const fillers, size = 12, 64 << 10
	admin := r.Server.Admin()
	since := time.Now()
	memory := admin.InfoMap(r.ctx, "memory")
	used, err := strconv.ParseInt(memory.Item("Memory", "used_memory"), 10, 64)
	r.must(cmp.Or(memory.Err(), err))
	r.config("maxmemory-policy", "allkeys-random")
	r.config("maxmemory", fmt.Sprint(used+fillers*size))
	for end := since.Add(broken); time.Now().Before(end); r.wait(5 * time.Millisecond) {
		filler := fmt.Sprint("filler", rand.Int64())
		err := admin.Set(r.ctx, filler, strings.Repeat("x", size), 0).Err()
		if err != nil && !strings.HasPrefix(err.Error(), "OOM") {
			r.must(err)
		}
	}
	r.config("maxmemory", "0")
	r.lose(since, time.Now().Add(limit.Interval),
		"keys were evicted until then, at moments that only Redis knows")
	stats := admin.InfoMap(r.ctx, "stats")
	if n := stats.Item("Stats", "evicted_keys"); n == "" || n == "0" {
		r.t.Fatalf("nothing was evicted: %v", stats.Err())
	}
}

// config sets a parameter of the server.
func (r *Round) config(parameter, value string) {
	r.must(r.Server.Admin().ConfigSet(r.ctx, parameter, value).Err())
}
