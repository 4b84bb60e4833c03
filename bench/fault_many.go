package main

import (
	"strconv"
	"sync"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// manyPart shows what a limiter for each user of a service leaves behind, in the
// process and in Redis, where each session has a field of the hash.
var manyPart = faultPart("many",
	"what 100,000 limiters leave behind that four Clients use seldom", (*faulty).many)

// own is how many fields of a hash are the limiter's: rate, interval, type and
// keep alive. Others are those of sessions.
const own = 4

// many measures limiters that few clients use, and seldom: one for each user of
// a service, say.
func (f *faulty) many() {
	// The second round finds what the first has left behind. 64 callers keep both
	// processors busy.
	const users, rounds, callers = 4, 2, 64
	limiters := amount(f.scope, 100_000, 200)
	f.title("%d limiters, %d Clients, each takes a permit of each, %d times", limiters, users, rounds)
	prefix := redistest.Name(f)
	name := func(i int) string { return prefix + strconv.Itoa(i) }
	setter := f.connect(f.server.Addr)
	f.must(inParallel(callers, limiters, func(i int) error {
		return setter.RateLimiter(name(i)).SetRate(f.ctx, rratelimiter.Overall, plenty, time.Hour)
	}))
	clients := make([]*rratelimiter.Client, users)
	for i := range clients {
		clients[i] = f.connect(f.server.Addr)
	}
	before := heapMB() // with the Clients and their pools
	start := time.Now()
	for range rounds {
		for _, c := range clients {
			f.must(inParallel(callers, limiters, func(i int) error {
				return second(c.RateLimiter(name(i)).TryAcquire(f.ctx, 1, 0))
			}))
		}
	}
	took := time.Since(start)
	f.row("acquires a second", "%.0f", float64(limiters*users*rounds)/took.Seconds())
	f.row("from one to the next of a Client", "%.0f s", took.Seconds()/rounds)
	f.row("heap of the process, more", "%.0f kB", (heapMB()-before)*1000)
	f.row("fields of sessions: hashes", "%v", f.sessionFields(limiters, callers, name))
}

// sessionFields returns, by number of fields that sessions have left in a hash,
// how many hashes have so many. Fields that nobody removes would pile up.
func (f *faulty) sessionFields(limiters, callers int, name func(i int) string) map[int64]int {
	var mu sync.Mutex
	hashes := map[int64]int{} // guarded by mu
	f.must(inParallel(callers, limiters, func(i int) error {
		fields, err := f.admin.HLen(f.ctx, keysOf(name(i), "").hash).Result()
		mu.Lock()
		defer mu.Unlock()
		hashes[fields-own]++
		return err
	}))
	return hashes
}
