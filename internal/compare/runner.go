package compare

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// FirstSeed returns the seed of the first sequence: COMPARE_SEED, which a
// failure names, or a new one.
func FirstSeed() (uint64, error) {
	if text := os.Getenv("COMPARE_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("compare: COMPARE_SEED: %w", err)
		}
		return seed, nil
	}
	return uint64(rand.Uint32()) << 16, nil
}

// A Finding is a sequence that fails.
type Finding struct {
	Seed  uint64
	Steps []Step
	*Divergence
}

// String returns the sequence, how to play it again, and its divergence.
func (f *Finding) String() string {
	return fmt.Sprintf("COMPARE_SEED=%d shows it again:\n%v%v", f.Seed, list(f.Steps), f.Divergence)
}

// Search plays many sequences, from the seed on, and returns the first that
// fails, or nil.
func (r *Runner) Search(ctx context.Context, seed uint64, many int) (found *Finding, err error) {
	search, end := context.WithCancel(ctx)
	defer end()
	var all sync.WaitGroup
	var next atomic.Uint64 // index of the next sequence
	var first sync.Once
	for n := range min(workers, many) {
		all.Go(func() {
			w := r.worker(n)
			defer w.close()
			for i := next.Add(1) - 1; i < uint64(many) && search.Err() == nil; i = next.Add(1) - 1 {
				steps := sequence(seed + i)
				switch d, failed := w.play(search, steps); {
				case failed != nil:
					first.Do(func() { err = failed })
					end()
				case d != nil:
					first.Do(func() { found = &Finding{Seed: seed + i, Steps: steps, Divergence: d} })
					end()
				}
			}
		})
	}
	all.Wait()
	return found, errors.Join(err, ctx.Err())
}

const (
	// workers is how many sequences are played at the same time: pauses take
	// most of their time.
	workers = 48
	// instances is how many Redisson instances the workers share.
	instances = 4
	// javaTimeout is longer than a busy machine takes to reply: after it Redisson
	// sends the request again, which charges it twice (B4).
	javaTimeout = time.Minute
)

// A side is one of the two languages: a client, and its limiters by name.
type side struct {
	id      string // scope of PER_CLIENT
	limiter func(name string) Limiter
}

// A Runner plays sequences on a redis-server with real Redisson instances. It
// reads their requests on the way to the server.
type Runner struct {
	Spoil func(l Limiter, java bool) Limiter // makes a side wrong, so that a test sees it found

	t        redistest.TB
	rdb      *redis.Client
	javas    []side
	requests *requestLog
}

// Start starts a server, and Redisson instances of the peer on it. They end with the
// test.
func Start(ctx context.Context, t redistest.TB, peer *javapeer.Peer) *Runner {
	t.Helper()
	s := redistest.Start(t)
	proxy := redistest.StartProxy(t, s.Addr)
	r := &Runner{
		t:        t,
		rdb:      s.Client(t, func(o *redis.Options) { o.PoolSize = workers }),
		requests: &requestLog{last: map[string][]string{}},
	}
	proxy.Observe(r.requests.see)
	for i := range instances {
		client := fmt.Sprint(redistest.Name(t), i)
		id, err := peer.Connect(ctx, client, proxy.Addr, javapeer.Timeout(javaTimeout))
		if err != nil {
			t.Fatalf("compare: %v", err)
		}
		t.Cleanup(func() { _ = peer.Disconnect(context.Background(), client) })
		limiter := func(name string) Limiter { return peer.Limiter(client, name) }
		r.javas = append(r.javas, side{id, limiter})
	}
	return r
}
