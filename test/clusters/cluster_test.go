package clusters_test

import (
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
