package inspect_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// limiter returns a limiter with a rate, on a Client that ends with the test.
func limiter(
	t *testing.T, rdb redis.UniversalClient, typ rratelimiter.RateType, rate int64, interval time.Duration,
) *rratelimiter.RateLimiter {
	t.Helper()
	l := clientOn(t, rdb).RateLimiter(redistest.Name(t))
	set(t, l, typ, rate, interval)
	return l
}

func clientOn(t *testing.T, rdb redis.UniversalClient, opts ...rratelimiter.Option) *rratelimiter.Client {
	c := rratelimiter.New(rdb, append(opts, rratelimiter.WithID("me"))...)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func set(
	t *testing.T, l *rratelimiter.RateLimiter, typ rratelimiter.RateType, rate int64, interval time.Duration,
) {
	t.Helper()
	if _, err := l.TrySetRate(t.Context(), typ, rate, interval); err != nil {
		t.Fatal(err)
	}
}

// take takes permits, one call for each number.
func take(t *testing.T, l *rratelimiter.RateLimiter, permits ...int64) {
	t.Helper()
	for _, n := range permits {
		if ok, err := l.TryAcquire(t.Context(), n, 0); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
}

func look(t *testing.T, rdb redis.UniversalClient, name string, ids ...string) *inspect.Limiter {
	t.Helper()
	l := redistest.Must(inspect.Read(t.Context(), rdb, name, inspect.Few, ids...))(t)
	return l
}

// put writes a record as if it had been written some time ago.
func put(t *testing.T, rdb redis.UniversalClient, key, record string, ago time.Duration) {
	t.Helper()
	z := redis.Z{Score: float64(time.Now().Add(-ago).UnixMilli()), Member: record}
	redistest.NoError(t, rdb.ZAdd(context.Background(), key, z).Err())
}
