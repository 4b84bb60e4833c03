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
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

func TestLimitersWorkOnACluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	rdb := cluster.Client(t)
	c := NewClient(t, rdb)

	t.Run("every operation, on names of all nodes", func(t *testing.T) {
		for _, typ := range []rratelimiter.RateType{Overall, PerClient} {
			for range 6 {
				wholeLife(t, c.RateLimiter(redistest.Name(t)), typ, sameSlot)
				wholeLife(t, c.RateLimiter("u:{"+redistest.Name(t)+"}:rl"), typ, func(name string) string {
					return name + ":new"
				})
			}
		}
	})

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

	t.Run("the scripts go to each node by themselves", func(t *testing.T) {
		err := rdb.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
			return node.ScriptFlush(ctx).Err()
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 6 {
			wholeLife(t, c.RateLimiter(redistest.Name(t)), Overall, sameSlot)
		}
	})
}

// onANode uses a client of one server on a cluster. The error names the limiter and
// the client to use.
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

// sameSlot returns another name that lives in the same slot.
func sameSlot(name string) string { return "{" + name + "}:new" }

// wholeLife does with a limiter all that can be done.
func wholeLife(t *testing.T, l *rratelimiter.RateLimiter, typ rratelimiter.RateType,
	rename func(string) string) {
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
	NoError(t, l.Rename(ctx, rename(l.Name())))
	has(15)
	NoError(t, Yes(l.Expire(ctx, time.Hour)))
	NoError(t, Yes(l.ClearExpire(ctx)))
	NoError(t, Yes(l.Exists(ctx)))
	NoError(t, Yes(l.Delete(ctx)))
	WantErr(t, ErrOf(l.Peek(ctx)), rratelimiter.ErrNotInitialized)
}

// The limit holds over a failover: callers wait it out within their attempts,
// and what the replica has is what counts. A reservation is settled there.
func TestTheLimitHoldsOverAFailover(t *testing.T) {
	t.Parallel() // most of the time is spent waiting
	s := redistest.StartSentinel(t)
	rdb := s.Client(t, func(o *redis.FailoverOptions) {
		o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff = 40, 50*time.Millisecond, 500*time.Millisecond
	})
	c := NewClient(t, rdb)
	l := c.RateLimiter(redistest.Name(t))
	ctx := t.Context()
	NoError(t, l.SetRate(ctx, Overall, 10, time.Hour))
	NoError(t, Yes(l.TryAcquire(ctx, 3, 0)))
	r := redistest.Must(l.Reserve(ctx, 7, 0))(t)
	if n, err := rdb.Wait(ctx, 1, 5*time.Second).Result(); n != 1 || err != nil {
		t.Fatal("the replica has not followed:", n, err)
	}
	s.Failover(t)
	NoError(t, r.Settle(ctx, 3))
	NoError(t, Yes(l.TryAcquire(ctx, 4, 0)))
	NoError(t, No(l.TryAcquire(ctx, 1, 0)))
}
