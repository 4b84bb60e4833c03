package keyed_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// configured expects what is set for a limiter.
func configured(b *Bench, l *rratelimiter.RateLimiter, want rratelimiter.Config) {
	b.Helper()
	if c, err := l.Config(b.Context()); err != nil || c != want {
		b.Errorf("%+v, %v; want %+v", c, err, want)
	}
}

// A limiter of a Keyed may have a rate of its own. It keeps the name of the Keyed, and expires.
func TestWithRateOfAKeyKeepsTheName(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		users := b.Client.Keyed("users", 2, time.Minute)
		alice := users.For(redistest.Name(b)).WithRate(5, time.Minute)
		if r, err := alice.Allow(b.Context(), 4); err != nil || r.Remaining != 1 || r.Policy != "users" {
			b.Errorf("%+v, %v", r, err)
		}
		configured(b, alice, rratelimiter.Config{
			Type: Overall, Rate: 5, Interval: time.Minute, KeepAlive: 2 * time.Minute,
		})
	})
}

func TestWithRateIsAMemberOfAGroup(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		plain := b.NewLimiter(Overall, 9, time.Minute)
		second := b.Client.RateLimiter(redistest.Name(b)).WithRate(2, time.Second)
		hour := b.NewLimiter(Overall, 3, time.Minute).WithRate(4, time.Hour)
		g := b.Client.All(plain.RateLimiter, second, hour)
		b.Want(Yes(g.TryAcquire(b.Context(), 2, 0)))
		r, err := g.Allow(b.Context(), 1)
		if err != nil || r.Allowed || r.Name != second.Name() || r.Each[2].Limit != 4 {
			b.Errorf("%+v, %v", r, err)
		}
		b.Want(g.Release(b.Context(), 1))
		b.Want(g.Acquire(b.Context(), 1))
		configured(b, hour, rratelimiter.Config{Type: Overall, Rate: 4, Interval: time.Hour})
	})
}

// Where Redis is away, the rate is known, and what was granted is booked when Redis is back
// without the limiter. The Client may have met the limiter without a rate before.
func TestWithRateFallsBack(t *testing.T) {
	for name, of := range map[string]func(c *Limiter) *rratelimiter.RateLimiter{
		"new": func(c *Limiter) *rratelimiter.RateLimiter {
			return c.Client.RateLimiter("new").WithRate(4, time.Minute)
		},
		"met": func(c *Limiter) *rratelimiter.RateLimiter {
			plain := c.Client.RateLimiter("new")
			NoError(c.T, plain.SetRate(c.Context(), Overall, 4, time.Minute))
			NoError(c.T, Yes(plain.TryAcquire(c.Context(), 1, 0)))
			c.Sleep(2 * time.Minute)
			NoError(c.T, ErrOf(plain.Delete(c.Context())))
			return plain.WithRate(4, time.Minute)
		},
		"of a Keyed": func(c *Limiter) *rratelimiter.RateLimiter {
			return c.Client.Keyed("t", 4, time.Minute).For("new")
		},
	} {
		Bubble(t, func(c *Limiter) {
			c.RDB.AddHook(Hook(c.Gate.Process))
			l := of(c)
			open := c.Gate.Shut()
			for range 3 {
				NoError(c.T, Yes(l.TryAcquire(c.Context(), 1, 0)))
			}
			open()
			c.Sleep(10 * time.Second)
			if h := c.Client.Health(); h.Degraded || h.Unbooked != 0 {
				c.Errorf("%s: %+v", name, h)
			}
			other := rratelimiter.New(redistest.MiniClient(c.T, c.Mini))
			defer other.Close()
			r, err := other.RateLimiter(l.Name()).Allow(c.Context(), 1)
			if err != nil || !r.Allowed || r.Remaining != 0 {
				c.Errorf("%s: %+v, %v; want the last permit", name, r, err)
			}
		}, rratelimiter.WithFallback(rratelimiter.FallbackLocal))
	}
}

// A limiter prints as its name. Nothing asks Redis.
func TestLimitersPrintTheirNames(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer rdb.Close()
	c := rratelimiter.New(rdb)
	defer c.Close()
	users := c.Keyed("visits", 2, time.Minute)
	for want, l := range map[string]any{
		`rate limiter "api"`:            c.RateLimiter("api"),
		`rate limiter "a\nb"`:           c.RateLimiter("a\nb").WithRate(1, time.Second),
		`rate limiter ""`:               c.RateLimiter(""),
		`rate limiter "visits:{alice}"`: users.For("alice"),
		`keyed rate limiter "visits"`:   users,
	} {
		if got := fmt.Sprint(l); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
