package compare

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

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
