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
	_ limits.Acquirer      = (*rratelimiter.RateLimiter)(nil)
	_ limits.Acquirer      = (*rratelimiter.Group)(nil)
	_ limits.KeyedAcquirer = (*rratelimiter.Keyed)(nil)
)

// A maker makes limiters for limittest, each with its own name.
type maker struct {
	dial func(t *testing.T) *redis.Client
	opts []rratelimiter.Option
	tag  string // of the names of Keyeds
}

// clients returns two Clients of one server.
func (m maker) clients(t *testing.T) (one, other *rratelimiter.Client) {
	t.Helper()
	rdb := m.dial(t)
	client := func() *rratelimiter.Client {
		c := rratelimiter.New(rdb, m.opts...)
		t.Cleanup(func() { NoError(t, c.Close()) })
		return c
	}
	return client(), client()
}

// pair returns one limiter of two Clients.
func (m maker) pair(t *testing.T, rate int64, interval time.Duration) (one, other limits.Limiter) {
	t.Helper()
	c, d := m.clients(t)
	name := redistest.Name(t)
	NoError(t, c.RateLimiter(name).SetRate(t.Context(), Overall, rate, interval))
	return c.RateLimiter(name), d.RateLimiter(name)
}

func (m maker) limiter(t *testing.T, rate int64, interval time.Duration) limits.Limiter {
	t.Helper()
	l, _ := m.pair(t, rate, interval)
	return l
}

// keyedPair returns one Keyed of two Clients.
func (m maker) keyedPair(t *testing.T, rate int64, interval time.Duration) (one, other limits.Keyed) {
	t.Helper()
	c, d := m.clients(t)
	name := m.tag + redistest.Name(t)
	return c.Keyed(name, rate, interval), d.Keyed(name, rate, interval)
}

func (m maker) keyed(t *testing.T, rate int64, interval time.Duration) limits.Keyed {
	t.Helper()
	k, _ := m.keyedPair(t, rate, interval)
	return k
}

// groupPair returns one Group of two Clients. One of its limiters refuses first.
func (m maker) groupPair(t *testing.T, rate int64, interval time.Duration) (one, other limits.Limiter) {
	t.Helper()
	c, d := m.clients(t)
	tight, wide := redistest.Name(t), redistest.Name(t)
	NoError(t, c.RateLimiter(tight).SetRate(t.Context(), Overall, rate, interval))
	NoError(t, c.RateLimiter(wide).SetRate(t.Context(), Overall, 3*rate, 2*interval))
	group := func(c *rratelimiter.Client) limits.Limiter {
		return c.All(c.RateLimiter(wide), c.RateLimiter(tight))
	}
	return group(c), group(d)
}

func (m maker) group(t *testing.T, rate int64, interval time.Duration) limits.Limiter {
	t.Helper()
	g, _ := m.groupPair(t, rate, interval)
	return g
}

func onMini(t *testing.T) *redis.Client { return redistest.MiniClient(t, redistest.Mini(t)) }

// A RateLimiter keeps the rules of package limit, in fake time.
func TestARateLimiterIsALimiter(t *testing.T) {
	for _, tt := range []struct {
		name      string
		opts      []rratelimiter.Option
		tolerance time.Duration
	}{
		{"default", nil, time.Millisecond},
		{"go only, with a fallback", []rratelimiter.Option{
			rratelimiter.WithGoOnly(), rratelimiter.WithFallback(rratelimiter.FallbackLocal),
		}, time.Millisecond},
		{"resolution", []rratelimiter.Option{
			rratelimiter.WithResolution(10 * time.Millisecond),
		}, 10 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := maker{dial: onMini, opts: tt.opts}
			limittest.TestLimiter(t, limittest.Spec{
				New: m.limiter, Pair: m.pair, Tolerance: tt.tolerance, Synctest: true,
			})
		})
	}
}

// A Group keeps the rules; its limiter with the smaller part left binds.
func TestAGroupIsALimiter(t *testing.T) {
	m := maker{dial: onMini}
	limittest.TestLimiter(t, limittest.Spec{
		New: m.group, Pair: m.groupPair, Tolerance: time.Millisecond, Synctest: true,
	})
}

// A Keyed keeps the rules, with any name.
func TestAKeyedIsKeyed(t *testing.T) {
	for _, tag := range []string{"", "{api}:"} {
		t.Run("tag "+tag, func(t *testing.T) {
			m := maker{dial: onMini, tag: tag}
			limittest.TestKeyed(t, limittest.KeyedSpec{
				New: m.keyed, Pair: m.keyedPair, Tolerance: time.Millisecond, Synctest: true,
			})
		})
	}
}

// A Keyed, whose limiters are RateLimiters, keeps the rules on a real redis-server in real time.
func TestLimitersKeepTheRulesOnRedis(t *testing.T) {
	t.Parallel() // most of the time is spent waiting
	s := redistest.Start(t)
	m := maker{dial: func(t *testing.T) *redis.Client { return s.Client(t) }}
	limittest.TestKeyed(t, limittest.KeyedSpec{
		New: m.keyed, Pair: m.keyedPair, Interval: 2 * time.Second, Parallel: true,
	})
}
