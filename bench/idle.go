package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// idlePart shows that a process may touch any number of names: what is not used
// any more holds no memory.
var idlePart = &part{
	name: "idle", set: setPage, measure: measureIdle,
	about: "heap that a process keeps for a million limiters it has used once",
}

// An idleData is what a Client keeps of limiters that nobody uses any more. A
// service with a limiter for each of its users must not grow with them.
type idleData struct {
	Names         int
	Before, After float64 // MB of heap
}

// measureIdle uses one limiter after the other, each by a RateLimiter that is
// dropped at once.
func measureIdle(ctx context.Context, s *scope) (finding, error) {
	server := redistest.Start(s)
	admin := server.Admin()
	c := s.client(server.Client(s, patient))
	names := amount(s, 1_000_000, 200)
	const portion = 10_000 // at a time, so that Redis does not need memory for all
	warm := min(portion, names)
	if err := touch(ctx, admin, c, "warm", warm); err != nil { // makes connections, and what is made once
		return finding{}, err
	}
	d := &idleData{Names: names, Before: heapMB()}
	for done := 0; done < names; done += portion {
		if err := touch(ctx, admin, c, fmt.Sprint(done), min(portion, names-done)); err != nil {
			return finding{}, err
		}
	}
	d.After = heapMB()
	runtime.KeepAlive(c) // or what it keeps would be garbage, too
	return finding{d, []target{
		most("T8", fmt.Sprintf("heap after touching %s names, beyond that before", thousands(float64(names))),
			d.After-d.Before, 5, " MB"),
	}}, nil
}

// touch makes n limiters, takes a permit of each and deletes them.
func touch(ctx context.Context, admin *redis.Client, c *rratelimiter.Client, prefix string, n int) error {
	name := func(i int) string { return fmt.Sprint(prefix, ":", i) }
	// Their hashes are written in one pipeline: a TrySetRate for each would be
	// another use of the name, and take twice as long.
	pipe := admin.Pipeline()
	for i := range n {
		pipe.HSet(ctx, keysOf(name(i), "").hash, "rate", 1, "interval", 60_000, "type", 0)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	// 64 callers keep both processors busy; the order of the names is not measured.
	err := inParallel(64, n, func(i int) error { return take(ctx, c.RateLimiter(name(i)), 1) })
	return errors.Join(err, admin.FlushDBAsync(ctx).Err())
}

// inParallel calls do for each number below n, by so many goroutines. A
// goroutine stops at its first error.
func inParallel(callers, n int, do func(i int) error) error {
	var (
		next atomic.Int64
		all  sync.WaitGroup
		errs = make([]error, callers)
	)
	for caller := range callers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[caller] == nil; i = int(next.Add(1)) - 1 {
				errs[caller] = do(i)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
