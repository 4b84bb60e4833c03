package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/cmd/rrl/internal/golden"
	"github.com/redisson-go/rratelimiter/cmd/rrl/internal/picture"
	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// used returns a limiter of 20 permits in 10 s after 9 s, in which Go and Java took some.
func used(t *testing.T, rdb *redis.Client) {
	t.Helper()
	c := rratelimiter.New(rdb)
	t.Cleanup(func() { _ = c.Close() })
	l := c.RateLimiter("api")
	redistest.NoError(t, l.SetRate(t.Context(), rratelimiter.Overall, 20, 10*time.Second,
		rratelimiter.WithKeepAlive(time.Minute)))
	for _, n := range []int64{3, 1, 1, 4, 1, 1} {
		if ok, err := l.TryAcquire(t.Context(), n, 0); !ok || err != nil {
			t.Fatal(ok, err)
		}
		time.Sleep(1500 * time.Millisecond)
	}
	keys := wire.PairOf("api", "", wire.Overall)
	at := float64(time.Now().Add(-200 * time.Millisecond).UnixMilli())
	rdb.ZAdd(t.Context(), keys.Permits, redis.Z{Score: at, Member: redistest.JavaRecord(1, 2)})
	rdb.DecrBy(t.Context(), keys.Value, 2)
}

// Output of inspect for a limiter, of which the docs have a picture, and with permits that are lost. Limiters
// of other kinds are in the sessions.
func TestInspectPrints(t *testing.T) {
	const pictured = "inspect.golden"
	for name, lost := range map[string]int64{pictured: 0, "inspect-b4.golden": 5} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rdb := redistest.MiniClient(t, redistest.Mini(t))
				used(t, rdb)
				rdb.DecrBy(t.Context(), "{api}:value", lost)
				l := redistest.Must(inspect.Read(t.Context(), rdb, "api", inspect.Few))(t)
				var b strings.Builder
				report{Limiter: l}.print(&b)
				got := withoutRandom(b.String())
				golden.Check(t, filepath.Join("testdata", name), got)
				if name == pictured {
					golden.Check(t, "../../docs/inspect.svg", picture.SVG("$ rrl inspect api\n"+got, 78,
						2+strings.Count(got, "\n"), "rrl inspect on a terminal: a limiter with its records"))
				}
			})
		})
	}
}

// A record that is dated ahead, as that of a lease, says when it begins to count.
func TestInspectPrintsRecordsThatAreAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		used(t, rdb)
		at := float64(time.Now().Add(500 * time.Millisecond).UnixMilli())
		rdb.ZAdd(t.Context(), "{api}:permits", redis.Z{Score: at, Member: redistest.JavaRecord(2, 1)})
		l := redistest.Must(inspect.Read(t.Context(), rdb, "api", inspect.Few))(t)
		var b strings.Builder
		report{Limiter: l}.print(&b)
		if row := "00:00:09.500  in 500ms        1    10.5s"; !strings.Contains(b.String(), row) {
			t.Errorf("no row %q in\n%s", row, b.String())
		}
	})
}

// Output of inspect for a lock of each kind.
func TestInspectPrintsLocks(t *testing.T) {
	const jvm, queue, timeouts = "5e4f0f64-8d3c-4bb4-9a63-3a0c6f1c2a11:", "redisson_lock_queue:{orders}",
		"redisson_lock_timeout:{orders}"
	for name, spoil := range map[string]func(ctx context.Context, rdb *redis.Client){
		"lock-fair.golden": func(ctx context.Context, rdb *redis.Client) {
			rdb.Set(ctx, "redisson_unlock_latch:{orders}:00112233445566778899aabbccddeeff", 1, time.Minute)
		},
		"lock-fenced.golden": func(ctx context.Context, rdb *redis.Client) {
			rdb.Del(ctx, queue, timeouts)
			rdb.Set(ctx, "redisson_lock_token:{orders}", 7, 0)
		},
		"lock-jam.golden": func(ctx context.Context, rdb *redis.Client) {
			rdb.Del(ctx, "orders", timeouts)
			for range 10 {
				rdb.RPush(ctx, queue, "svc:1")
			}
		},
		"lock-endless.golden": func(ctx context.Context, rdb *redis.Client) {
			rdb.Del(ctx, queue, timeouts)
			rdb.Persist(ctx, "orders")
			rdb.HSet(ctx, "orders", "a b:1", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, rdb := t.Context(), redistest.MiniClient(t, redistest.Mini(t))
				rdb.HSet(ctx, "orders", jvm+"52", 2)
				rdb.PExpire(ctx, "orders", 30*time.Second)
				for i, waiter := range []string{jvm + "60", jvm + "61", "svc:31"} {
					in := time.Duration(2*min(i, 1)-1)*time.Minute + time.Duration(i)*time.Second
					rdb.RPush(ctx, queue, waiter)
					z := redis.Z{Score: float64(time.Now().Add(in).UnixMilli()), Member: waiter}
					rdb.ZAdd(ctx, timeouts, z)
				}
				time.Sleep(time.Second)
				spoil(ctx, rdb)
				l := redistest.Must(new(app).lockAt(ctx, rdb, "orders", inspect.Few))(t)
				var b strings.Builder
				lockReport{Lock: l}.print(&b)
				golden.Check(t, filepath.Join("testdata", name), b.String())
			})
		})
	}
}
