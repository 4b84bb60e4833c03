package main

import (
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// many measures what limiters leave behind that few use, and seldom: one for each
// user, say.
func (b *bench) many() {
	const limiters, users, rounds, callers = 100_000, 4, 2, 64
	b.title("%d limiters, %d Clients, each takes a permit of each, %d times", limiters, users, rounds)
	prefix := redistest.Name(b)
	setter := b.client(b.server.Addr)
	b.inParallel(callers, limiters, func(i int) error {
		return setter.RateLimiter(prefix+strconv.Itoa(i)).SetRate(b.ctx, rratelimiter.Overall, rate, time.Hour)
	})
	clients := make([]*rratelimiter.Client, users)
	for i := range clients {
		clients[i] = b.client(b.server.Addr)
	}
	before := heap()
	start := time.Now()
	for range rounds {
		for _, c := range clients {
			b.inParallel(callers, limiters, func(i int) error {
				return second(c.RateLimiter(prefix+strconv.Itoa(i)).TryAcquire(b.ctx, 1, 0))
			})
		}
	}
	took := time.Since(start)
	b.row("acquires a second", "%.0f", limiters*users*rounds/took.Seconds())
	b.row("from one to the next of a Client", "%.0f s", took.Seconds()/rounds)
	b.row("heap of the process, more", "%d kB", (heap()-before)/1024)
	var mu sync.Mutex
	hashes := map[int64]int{}
	b.inParallel(callers, limiters, func(i int) error {
		fields, err := b.admin.HLen(b.ctx, prefix+strconv.Itoa(i)).Result()
		mu.Lock()
		defer mu.Unlock()
		hashes[fields-own]++
		return err
	})
	b.row("fields of sessions: hashes", "%v", hashes)
}

// own is how many fields of a hash are the limiter's: rate, interval, type and
// keep alive.
const own = 4

// inParallel does something for each number below n.
func (b *bench) inParallel(callers, n int, do func(i int) error) {
	var group sync.WaitGroup
	errs := make([]error, callers)
	for caller := range callers {
		group.Go(func() {
			for i := caller; i < n && errs[caller] == nil; i += callers {
				errs[caller] = do(i)
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		b.must(err)
	}
}

// heap is how many bytes of the process are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
