package clusters_test

import (
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// promoted waits until a server is a master that serves its slots.
func promoted(t *testing.T, s *redistest.Server, key string) {
	t.Helper()
	Until(t, func() bool { return s.Admin().Exists(t.Context(), key).Err() == nil })
}

// copied returns how many records of a limiter a replica has.
func copied(t *testing.T, s *redistest.Server, name string) int64 {
	t.Helper()
	conn := s.Client(t).Conn() // Admin's connections must not stay READONLY
	defer conn.Close()
	NoError(t, conn.ReadOnly(t.Context()).Err())
	return conn.ZCard(t.Context(), "{"+name+"}:permits").Val()
}

// goesOn waits until a limiter of 10 grants again, and then expects it to be whole: the permits that were
// taken before are missing, and a waiter is woken by a release of another Client.
func goesOn(t *testing.T, l, other *rratelimiter.RateLimiter, out int64) (took time.Duration) {
	t.Helper()
	start := time.Now()
	Until(t, func() bool { return ErrOf(l.TryAcquire(t.Context(), 10, 0)) == nil }) // refused: some are out
	took = time.Since(start)
	Until(t, func() bool { return ErrOf(other.Peek(t.Context())) == nil })
	NoError(t, No(other.TryAcquire(t.Context(), 11-out, 0)))
	NoError(t, Yes(l.TryAcquire(t.Context(), 10-out, 0)))
	served := make(chan error, 1)
	go func() { served <- l.Acquire(t.Context(), 3) }()
	Until(t, func() bool { // it stands in line before the release, or finds the permits at once
		return ErrOf(other.Peek(t.Context())) == nil && len(served) == 0
	})
	NoError(t, other.Release(t.Context(), 3))
	NoError(t, Receive(t, served))
	NoError(t, other.Release(t.Context(), 10-out))
	return took
}

// A limiter on a cluster survives an orderly failover and the death of a master with the default settings of
// go-redis: it goes on as soon as the replica has the slots, because the library makes go-redis ask for them.
func TestALimiterGoesOnOverFailoversOfACluster(t *testing.T) {
	t.Parallel() // most of the time is spent waiting
	cluster := redistest.StartCluster(t, redistest.WithReplicas(1),
		redistest.WithArgs("--cluster-node-timeout", "1000"))
	var sides [2]*rratelimiter.Client
	for i := range sides {
		sides[i] = rratelimiter.New(cluster.Client(t))
		t.Cleanup(func() { _ = sides[i].Close() })
	}
	name := redistest.Name(t)
	l, other := sides[0].RateLimiter(name), sides[1].RateLimiter(name)
	NoError(t, l.SetRate(t.Context(), Overall, 10, time.Hour))
	NoError(t, Yes(l.TryAcquire(t.Context(), 2, 0)))
	NoError(t, Yes(other.TryAcquire(t.Context(), 2, 0)))
	at := cluster.Node(t, name)
	old, next := cluster.Servers[at], cluster.Servers[masters+at] // its replica, in the same order

	Until(t, func() bool { return copied(t, next, name) == 2 })
	NoError(t, next.Admin().ClusterFailover(t.Context()).Err())
	promoted(t, next, name)
	goesOn(t, l, other, 4)

	(&followed{T: t}).follows(old)
	Until(t, func() bool { return copied(t, old, name) == 2 })
	next.Stop()
	promoted(t, old, name)
	t.Log("acquires go on after", goesOn(t, l, other, 4))
}
