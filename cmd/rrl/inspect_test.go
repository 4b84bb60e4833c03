package main

import (
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

// The output of inspect of which docs/inspect.svg is a picture.
func TestInspectPrints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		used(t, rdb)
		l := redistest.Must(inspect.Read(t.Context(), rdb, "api", inspect.Few))(t)
		var b strings.Builder
		report{Limiter: l}.print(&b)
		got := withoutRandom(b.String())
		golden.Check(t, "testdata/inspect.golden", got)
		golden.Check(t, "../../docs/inspect.svg", picture.SVG("$ rrl inspect api\n"+got, 78,
			2+strings.Count(got, "\n"), "rrl inspect on a terminal: a limiter with its records"))
	})
}
