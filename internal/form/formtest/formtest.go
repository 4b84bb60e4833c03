// Package formtest checks the forms of an algorithm: each by package limittest, in memory
// and on Redis, and that they are the same limiter; and what no limiter can show by itself:
// its bound when the clock is set, replies that are late or lost, and data of others
// under its key.
package formtest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/limittest"
)

// An Algorithm has all four forms.
type Algorithm interface {
	InMemory(opts ...limit.Option) (limit.Releaser, error)
	InMemoryKeyed(opts ...limit.Option) (limit.KeyedReleaser, error)
	OnRedis(rdb redis.UniversalClient, name string) (limit.Releaser, error)
	OnRedisKeyed(rdb redis.UniversalClient, name string) (limit.KeyedReleaser, error)
}

// A Suite says which algorithm is checked, and what it promises.
type Suite struct {
	// New returns an algorithm that gives rate permits in an interval, all at once if
	// it ever does.
	New func(rate int64, interval time.Duration) Algorithm

	// Kind says how permits come back. Worst is the bound in any interval, as a multiple
	// of the rate.
	Kind  limittest.Algorithm
	Worst int64

	// Grain is how exactly the two forms agree on time: a millisecond if Redis drops the
	// key itself at the end. The default is a microsecond.
	Grain time.Duration

	// Full is the time, in intervals, after which all permits are back, whatever was
	// done to the clock. The default is 2.
	Full time.Duration
}

// Run runs all checks.
func Run(t *testing.T, s Suite) {
	t.Helper()
	s.Grain = max(s.Grain, time.Microsecond)
	s.Full = max(s.Full, 2)
	t.Run("limittest", s.conforms)
	t.Run("memory and Redis decide alike", s.alike)
	t.Run("no window has more than the bound", s.bounded)
	t.Run("the highest rate", s.fastest)
	t.Run("Release", s.releases)
	t.Run("Return", s.lends)
	t.Run("memory allocates nothing", s.allocates)
	t.Run("Redis", s.onRedis)
}

// Refuses expects that no form is made of algorithms out of their bounds, and that each error
// contains the text of its algorithm.
func Refuses[A Algorithm](t *testing.T, wrong map[string]A) {
	t.Helper()
	for text, a := range wrong {
		refused := func(l any, err error) {
			if l != nil || !errors.Is(err, limit.ErrInvalidArgument) || !strings.Contains(err.Error(), text) {
				t.Errorf("%+v: %v, want %q", a, err, text)
			}
		}
		refused(a.InMemory())
		refused(a.InMemoryKeyed())
		refused(a.OnRedis(nil, "name"))
		refused(a.OnRedisKeyed(nil, "name"))
	}
}

// conforms runs package limittest on each form.
func (s Suite) conforms(t *testing.T) {
	t.Parallel()
	t.Run("InMemory", func(t *testing.T) {
		limittest.TestLimiter(t, limittest.Spec{
			New: func(t *testing.T, rate int64, interval time.Duration) limit.Limiter {
				return redistest.Must(s.New(rate, interval).InMemory())(t)
			},
			Algorithm: s.Kind, Synctest: true,
		})
	})
	t.Run("InMemoryKeyed", func(t *testing.T) {
		limittest.TestKeyed(t, limittest.KeyedSpec{
			New: func(t *testing.T, rate int64, interval time.Duration) limit.Keyed {
				return redistest.Must(s.New(rate, interval).InMemoryKeyed())(t)
			},
			Algorithm: s.Kind, Synctest: true,
		})
	})
	t.Run("OnRedis", func(t *testing.T) {
		limittest.TestLimiter(t, limittest.Spec{
			New: func(t *testing.T, rate int64, interval time.Duration) limit.Limiter {
				rdb := redistest.MiniClient(t, redistest.Mini(t))
				return redistest.Must(s.New(rate, interval).OnRedis(rdb, redistest.Name(t)))(t)
			},
			Algorithm: s.Kind, Synctest: true,
		})
	})
	t.Run("OnRedisKeyed", func(t *testing.T) {
		server := redistest.Start(t)
		one, other := server.Client(t), server.Client(t)
		form := func(t *testing.T, a Algorithm, rdb *redis.Client, name string) limit.Keyed {
			return redistest.Must(a.OnRedisKeyed(rdb, name))(t)
		}
		limittest.TestKeyed(t, limittest.KeyedSpec{
			New: func(t *testing.T, rate int64, interval time.Duration) limit.Keyed {
				return form(t, s.New(rate, interval), one, redistest.Name(t))
			},
			Pair: func(t *testing.T, rate int64, interval time.Duration) (limit.Keyed, limit.Keyed) {
				a, name := s.New(rate, interval), redistest.Name(t)
				return form(t, a, one, name), form(t, a, other, name)
			},
			Algorithm: s.Kind, Interval: 800 * time.Millisecond, Parallel: true,
		})
	})
}

// fastest expects a permit of so many that it is back in less time than is counted in.
func (s Suite) fastest(t *testing.T) {
	a := s.New(form.MostPermits/16, time.Second) // some algorithms multiply it
	memory := redistest.Must(a.InMemory())(t)
	shared := redistest.Must(a.OnRedis(redistest.MiniClient(t, redistest.Mini(t)), "name"))(t)
	for _, l := range []limit.Limiter{memory, shared} {
		if r, err := l.Allow(t.Context(), 1); err != nil || !r.Allowed {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// allocates expects that a limiter in memory that is used allocates nothing.
func (s Suite) allocates(t *testing.T) {
	a := s.New(1000, time.Hour)
	one := redistest.Must(a.InMemory())(t)
	many := redistest.Must(a.InMemoryKeyed())(t)
	ctx := t.Context()
	for range 2 { // what is granted, and what is refused
		if n := testing.AllocsPerRun(600, func() { _, _ = one.Allow(ctx, 1) }); n > 0 {
			t.Errorf("InMemory: %v allocations for each call", n)
		}
		if n := testing.AllocsPerRun(600, func() { _, _ = many.Allow(ctx, "key", 1) }); n > 0 {
			t.Errorf("InMemoryKeyed: %v allocations for each call", n)
		}
	}
}
