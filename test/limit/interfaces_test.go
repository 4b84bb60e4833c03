package limit_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	limits "github.com/redisson-go/rratelimiter/limit" // example_http_test.go has a limit
	"github.com/redisson-go/rratelimiter/limit/limittest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

var (
	_ limits.Acquirer = (*rratelimiter.RateLimiter)(nil)
	_ limits.Acquirer = (*rratelimiter.Group)(nil)
)

// A maker makes two handles of a limiter, of two Clients.
type maker[L any] = func(t *testing.T, rate int64, interval time.Duration) (one, other L)

// first returns a maker of one handle.
func first[L any](pair maker[L]) func(*testing.T, int64, time.Duration) L {
	return func(t *testing.T, rate int64, interval time.Duration) L {
		t.Helper()
		one, _ := pair(t, rate, interval)
		return one
	}
}

func clients(t *testing.T, rdb *redis.Client, opts ...rratelimiter.Option) (one, other *rratelimiter.Client) {
	t.Helper()
	return NewClient(t, rdb, opts...), NewClient(t, rdb, opts...)
}

func onMini(t *testing.T) *redis.Client { return redistest.MiniClient(t, redistest.Mini(t)) }

// limiters makes RateLimiters of Clients with options.
func limiters(opts ...rratelimiter.Option) maker[limits.Limiter] {
	return func(t *testing.T, rate int64, interval time.Duration) (one, other limits.Limiter) {
		c, d := clients(t, onMini(t), opts...)
		NoError(t, c.RateLimiter("l").SetRate(t.Context(), Overall, rate, interval))
		return c.RateLimiter("l"), d.RateLimiter("l")
	}
}

// groups makes Groups. The limiter with the smaller part left binds: one refuses first.
func groups(t *testing.T, rate int64, interval time.Duration) (one, other limits.Limiter) {
	t.Helper()
	c, d := clients(t, onMini(t))
	NoError(t, c.RateLimiter("tight").SetRate(t.Context(), Overall, rate, interval))
	NoError(t, c.RateLimiter("wide").SetRate(t.Context(), Overall, 3*rate, 2*interval))
	return c.All(c.RateLimiter("wide"), c.RateLimiter("tight")),
		d.All(d.RateLimiter("wide"), d.RateLimiter("tight"))
}

type keyed = limits.Keyed[*rratelimiter.RateLimiter]

// keyeds makes Keyeds whose names begin with a tag.
func keyeds(dial func(t *testing.T) *redis.Client, tag string) maker[keyed] {
	return func(t *testing.T, rate int64, interval time.Duration) (one, other keyed) {
		c, d := clients(t, dial(t))
		name := tag + redistest.Name(t)
		return c.Keyed(name, rate, interval), d.Keyed(name, rate, interval)
	}
}

// All limiters keep the rules of package limit, in fake time.
func TestLimitersKeepTheRules(t *testing.T) {
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		pair      maker[limits.Limiter]
		tolerance time.Duration
	}{
		"RateLimiter": {limiters(), ms},
		"RateLimiter, Go only, with a fallback": {
			limiters(rratelimiter.WithGoOnly(), rratelimiter.WithFallback(rratelimiter.FallbackLocal)), ms,
		},
		"Group": {groups, ms},
	} {
		t.Run(name, func(t *testing.T) {
			limittest.TestLimiter(t, limittest.Spec{
				New: first(tt.pair), Pair: tt.pair, Tolerance: tt.tolerance, Synctest: true,
			})
		})
	}
	for name, tag := range map[string]string{"Keyed": "", "Keyed with a tag": "{api}:"} {
		t.Run(name, func(t *testing.T) {
			pair := keyeds(onMini, tag)
			limittest.TestKeyed(t, limittest.KeyedSpec[*rratelimiter.RateLimiter]{
				New: first(pair), Pair: pair, Tolerance: ms, Synctest: true,
			})
		})
	}
}

// A Keyed, whose limiters are RateLimiters, keeps the rules on a real redis-server in real time.
func TestLimitersKeepTheRulesOnRedis(t *testing.T) {
	t.Parallel() // most of the time is spent waiting
	s := redistest.Start(t)
	pair := keyeds(func(t *testing.T) *redis.Client { return s.Client(t) }, "")
	limittest.TestKeyed(t, limittest.KeyedSpec[*rratelimiter.RateLimiter]{
		New: first(pair), Pair: pair, Interval: 2 * time.Second, Parallel: true,
	})
}
