package limit_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit/limittest"
)

// Calls of many callers travel in few writes. A caller whose context ends leaves alone: all others get their
// replies, and what its own call took goes back. A lone call allocates little.
func TestCallersTravelTogetherAndLeaveAlone(t *testing.T) {
	const permits, callers, calls = 100_000, 64, 40
	server := redistest.Start(t)
	for _, a := range algorithms {
		if a.suite.Kind == limittest.Paced {
			continue // its permits do not count up
		}
		t.Run(a.name, func(t *testing.T) {
			rdb := server.Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
			l := redistest.Must(a.suite.New(permits, 90*24*time.Hour).OnRedis(rdb, redistest.Name(t)))(t)
			redistest.Must(l.Allow(t.Context(), 1))(t)
			var granted atomic.Int64
			granted.Store(1)
			trips := redistest.RoundTrips(rdb)
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					for range calls {
						ctx, cancel := t.Context(), context.CancelFunc(func() {})
						switch leaves := time.Duration(rand.Int64N(int64(time.Millisecond))); i % 4 {
						case 0:
							ctx, cancel = context.WithTimeout(ctx, leaves)
						case 1:
							ctx, cancel = context.WithCancel(ctx)
							time.AfterFunc(leaves, cancel)
						}
						r, err := l.Allow(ctx, 1)
						cancel()
						left := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
						if err != nil && (i%4 > 1 || !left) {
							t.Errorf("caller %d: %v", i, err)
						}
						if r.Allowed {
							granted.Add(1)
						}
					}
				})
			}
			all.Wait()
			if n := trips.Load(); n > callers*calls/2 {
				t.Errorf("%d calls were sent in %d writes", callers*calls, n)
			}
			redistest.Eventually(t, "all permits of callers that left", func() bool {
				r := redistest.Must(l.Peek(t.Context()))(t)
				return permits-r.Remaining == granted.Load()
			})
			if n := testing.AllocsPerRun(100, func() { _, _ = l.Allow(context.Background(), 1) }); n > 15 {
				t.Errorf("%v allocations for a lone call", n)
			}
		})
	}
}
