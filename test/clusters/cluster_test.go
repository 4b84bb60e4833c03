package clusters_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

func TestLimitersWorkOnACluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	rdb := cluster.Client(t)
	c := NewClient(t, rdb)

	// B23
	t.Run("names of several slots", func(t *testing.T) {
		for _, name := range []string{"a{b", "a}b", "a{}b", "}x{y"} {
			for method, err := range CallAll(t.Context(), c.RateLimiter(name)) {
				if !errors.Is(err, rratelimiter.ErrInvalidArgument) {
					t.Errorf("%s of %s: %v, want ErrInvalidArgument", method, name, err)
				}
				WantText(t, err, name, "slot")
			}
		}
		embedded := NewClient(t, embedsCluster{rdb}).RateLimiter("a{b")
		WantErr(t, embedded.Acquire(t.Context(), 1), rratelimiter.ErrInvalidArgument, "slot")
	})

	t.Run("a client of one server", func(t *testing.T) { onANode(t, cluster) })

	t.Run("rename to another slot", func(t *testing.T) {
		l := c.RateLimiter("one")
		NoError(t, l.SetRate(t.Context(), Overall, 5, time.Second))
		err := l.Rename(t.Context(), "two")
		WantErr(t, err, rratelimiter.ErrInvalidArgument, "one", "two")
		if ok, err := l.TryAcquire(t.Context(), 5, 0); !ok || err != nil || l.Name() != "one" {
			t.Fatal(ok, err, l.Name())
		}
	})
}

// onANode uses a client of one server on a cluster. The error names the limiter and the client to use.
func onANode(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	node := cluster.Servers[0].Client(t)
	one := NewClient(t, node)
	elsewhere := "api"
	for i := 0; node.Exists(t.Context(), elsewhere).Err() == nil; i++ {
		elsewhere = fmt.Sprintf("api %d", i)
	}
	for method, err := range CallAll(t.Context(), one.RateLimiter(elsewhere)) {
		if method == "OnExpired" || method == "OnDeleted" { // they name no key
			continue
		}
		if _, moved := redis.IsMovedError(err); !moved && method != "Rename" {
			t.Errorf("%s: %v, want MOVED wrapped", method, err)
		}
		WantText(t, err, strconv.Quote(elsewhere), "cluster")
		if method != "Rename" {
			WantText(t, err, "use redis.NewClusterClient")
		}
	}
	_, err := one.RateLimiter("a{b").TryAcquire(t.Context(), 1, 0)
	if !errors.Is(err, rratelimiter.ErrInvalidArgument) || !redis.HasErrorPrefix(err, "CROSSSLOT ") {
		t.Errorf("%v, want ErrInvalidArgument and CROSSSLOT", err)
	}
	WantText(t, err, `for "a{b"`, "different slots of a cluster")
}

// outOf returns the permits in the records of a limiter.
func outOf(t *testing.T, rdb redis.Cmdable, name string) (sum int64) {
	t.Helper()
	key := wire.PairOf(name, "", wire.Overall).Permits
	for _, m := range redistest.Must(rdb.ZRange(t.Context(), key, 0, -1).Result())(t) {
		sum += redistest.Must(wire.Permits(m))(t)
	}
	return sum
}

// wholeLife does with a limiter all that can be done.
func wholeLife(t *testing.T, l *rratelimiter.RateLimiter, typ rratelimiter.RateType, next string) {
	t.Helper()
	ctx := t.Context()
	has := func(want int64) {
		t.Helper()
		if got, err := l.AvailablePermits(ctx); got != want || err != nil {
			t.Fatal(l.Name(), got, err, "want", want)
		}
	}
	NoError(t, Yes(l.TrySetRate(ctx, typ, 10, time.Hour)))
	NoError(t, Yes(l.TryAcquire(ctx, 4, 0)))
	NoError(t, Yes(l.TryAcquire(ctx, 4, 0)))
	has(2)
	NoError(t, l.Release(ctx, 3))
	has(5)
	NoError(t, Yes(l.UpdateRate(ctx, typ, 20, time.Hour, rratelimiter.WithKeepState())))
	has(15)
	NoError(t, l.Rename(ctx, next))
	has(15)
	NoError(t, Yes(l.Expire(ctx, time.Hour)))
	NoError(t, Yes(l.ClearExpire(ctx)))
	NoError(t, Yes(l.Exists(ctx)))
	NoError(t, Yes(l.Delete(ctx)))
	WantErr(t, ErrOf(l.Peek(ctx)), rratelimiter.ErrNotInitialized)
}

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

// A Ring moves the keys of a shard that fails its heartbeat to other shards, where they are new: a limiter
// starts full there (docs/operations.md). A HeartbeatFn that is always true keeps the limiter on its shard.
func TestAShardOfARingThatIsAwayMovesItsLimiters(t *testing.T) {
	const rate = 5
	for what, stays := range map[string]bool{"the limiter moves and starts full": false, "it stays": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel() // most of the time is spent waiting
			shards := []*redistest.Server{redistest.Start(t), redistest.Start(t)}
			opts := &redis.RingOptions{
				Addrs:              map[string]string{"one": shards[0].Addr, "two": shards[1].Addr},
				HeartbeatFrequency: 10 * time.Millisecond,
				ReadTimeout:        100 * time.Millisecond,
			}
			if stays {
				opts.HeartbeatFn = func(context.Context, *redis.Client) bool { return true }
			}
			ring := redis.NewRing(opts)
			c := rratelimiter.New(ring)
			t.Cleanup(func() { _, _ = c.Close(), ring.Close() })
			l := c.Keyed(redistest.Name(t), rate, time.Hour).For("user")
			NoError(t, Yes(l.TryAcquire(t.Context(), rate, 0)))
			WantErr(t, l.Rename(t.Context(), "elsewhere"), rratelimiter.ErrInvalidArgument)
			home := shards[0]
			if home.Admin().Exists(t.Context(), l.Name()).Val() == 0 {
				home = shards[1]
			}
			thaw := home.Freeze(t)
			if stays {
				ok, err := l.TryAcquire(t.Context(), 1, 0)
				if ok || !errors.Is(err, rratelimiter.ErrNoAnswer) {
					t.Error(ok, err, "want ErrNoAnswer")
				}
			} else {
				Until(t, func() bool { return ring.Len() == 1 })
				NoError(t, Yes(l.TryAcquire(t.Context(), rate, 0)))
				NoError(t, No(l.TryAcquire(t.Context(), 1, 0)))
			}
			thaw()
			Until(t, func() bool { return ring.Len() == 2 && home.Admin().Ping(t.Context()).Err() == nil })
			var ok bool
			var err error
			Until(t, func() bool { ok, err = l.TryAcquire(t.Context(), 1, time.Second); return err == nil })
			NoError(t, No(ok, err))
		})
	}
}
