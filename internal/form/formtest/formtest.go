// Package formtest checks the forms of an algorithm. Each passes package limittest, in memory and on
// Redis, and all are the same limiter. Beyond that it checks promises that need more than one limiter: the
// bound when the clock is set, late and lost replies, and foreign data under the key.
package formtest

import (
	"errors"
	"reflect"
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

// A maker is an algorithm of any package, whose limiters are an L, and those with keys a K.
type maker[L limit.Releaser, K limit.KeyedReleaser] interface {
	InMemory(opts ...limit.Option) (L, error)
	InMemoryKeyed(opts ...limit.Option) (K, error)
	OnRedis(rdb redis.UniversalClient, name string) (L, error)
	OnRedisKeyed(rdb redis.UniversalClient, name string) (K, error)
}

// Of returns an algorithm as an Algorithm.
func Of[L limit.Releaser, K limit.KeyedReleaser](m maker[L, K]) Algorithm { return of[L, K]{m} }

type of[L limit.Releaser, K limit.KeyedReleaser] struct{ maker[L, K] }

// InMemory implements Algorithm.
func (o of[L, K]) InMemory(opts ...limit.Option) (limit.Releaser, error) {
	return o.maker.InMemory(opts...)
}

// InMemoryKeyed implements Algorithm.
func (o of[L, K]) InMemoryKeyed(opts ...limit.Option) (limit.KeyedReleaser, error) {
	return o.maker.InMemoryKeyed(opts...)
}

// OnRedis implements Algorithm.
func (o of[L, K]) OnRedis(rdb redis.UniversalClient, name string) (limit.Releaser, error) {
	return o.maker.OnRedis(rdb, name)
}

// OnRedisKeyed implements Algorithm.
func (o of[L, K]) OnRedisKeyed(rdb redis.UniversalClient, name string) (limit.KeyedReleaser, error) {
	return o.maker.OnRedisKeyed(rdb, name)
}

// A Suite names an algorithm and its promises.
type Suite struct {
	// New returns an algorithm that gives rate permits in an interval, all at once if
	// it ever does.
	New func(rate int64, interval time.Duration) Algorithm

	// Kind says how permits come back. Worst is the bound in any interval, as a multiple
	// of the rate.
	Kind  limittest.Algorithm
	Worst int64

	// Grain is how exactly both forms agree on time: a millisecond if Redis drops the key
	// itself at the end. The default is a microsecond.
	Grain time.Duration

	// Fixed says that New ignores the interval, and that all permits are back in an hour, once: Run leaves
	// out what needs other intervals.
	Fixed bool
}

// full is the number of intervals after which all permits are back, whatever was done to the clock.
const full = 2

// Run runs all checks.
func Run(t *testing.T, s Suite) {
	t.Helper()
	s = s.complete()
	if !s.Fixed {
		t.Run("limittest", s.conforms)
		t.Run("memory and Redis decide alike", func(t *testing.T) {
			t.Parallel()
			Alike(t, s)
		})
		t.Run("no window has more than the bound", s.bounded)
	}
	t.Run("the highest rate", s.fastest)
	t.Run("Redis", s.onRedis)
}

// complete returns s with its defaults.
func (s Suite) complete() Suite {
	s.Grain = max(s.Grain, time.Microsecond)
	return s
}

// Refuses expects that algorithms out of their bounds have no forms, and that each error contains the
// text of its algorithm.
func Refuses[A maker[L, K], L limit.Releaser, K limit.KeyedReleaser](t *testing.T, wrong map[string]A) {
	t.Helper()
	for text, a := range wrong {
		refused := func(l any, err error) {
			made := reflect.ValueOf(l)
			if made.IsValid() && !made.IsZero() || !errors.Is(err, limit.ErrInvalidArgument) ||
				!strings.Contains(err.Error(), text) {
				t.Errorf("%+v: %v, want %q", a, err, text)
			}
		}
		refused(a.InMemory())
		refused(a.InMemoryKeyed())
		refused(a.OnRedis(nil, "name"))
		refused(a.OnRedisKeyed(nil, "name"))
	}
}

// Allow expects that n permits are granted, or not.
func Allow(t *testing.T, l limit.Limiter, n int64, want bool) limit.Result {
	t.Helper()
	r := redistest.Must(l.Allow(t.Context(), n))(t)
	if r.Allowed != want {
		t.Errorf("Allow(%d): %+v, want %v", n, r, want)
	}
	return r
}

// Fails expects an error of a call.
func Fails(t *testing.T, want, err error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("the error is %v, want %v", err, want)
	}
}

// conforms runs package limittest on each form.
func (s Suite) conforms(t *testing.T) {
	t.Parallel()
	limiter := func(of func(t *testing.T, a Algorithm) (limit.Releaser, error)) func(*testing.T) {
		return func(t *testing.T) {
			limittest.TestLimiter(t, limittest.Spec{
				New: func(t *testing.T, rate int64, interval time.Duration) limit.Limiter {
					return redistest.Must(of(t, s.New(rate, interval)))(t)
				},
				Algorithm: s.Kind, Synctest: true,
			})
		}
	}
	t.Run("InMemory", limiter(func(_ *testing.T, a Algorithm) (limit.Releaser, error) {
		return a.InMemory()
	}))
	t.Run("OnRedis", limiter(func(t *testing.T, a Algorithm) (limit.Releaser, error) {
		return a.OnRedis(NewMini(t).Client, redistest.Name(t))
	}))
	t.Run("InMemoryKeyed", func(t *testing.T) {
		limittest.TestKeyed(t, limittest.KeyedSpec{
			New: func(t *testing.T, rate int64, interval time.Duration) limit.Keyed {
				return redistest.Must(s.New(rate, interval).InMemoryKeyed())(t)
			},
			Algorithm: s.Kind, Synctest: true,
		})
	})
	t.Run("OnRedisKeyed", func(t *testing.T) {
		server := redistest.Start(t)
		one, other := server.Client(t), server.Client(t)
		pair := func(t *testing.T, rate int64, interval time.Duration) (limit.Keyed, limit.Keyed) {
			a, name := s.New(rate, interval), redistest.Name(t)
			return redistest.Must(a.OnRedisKeyed(one, name))(t),
				redistest.Must(a.OnRedisKeyed(other, name))(t)
		}
		limittest.TestKeyed(t, limittest.KeyedSpec{
			New: func(t *testing.T, rate int64, interval time.Duration) limit.Keyed {
				l, _ := pair(t, rate, interval)
				return l
			},
			Pair:      pair,
			Algorithm: s.Kind, Interval: 800 * time.Millisecond, Parallel: true,
		})
	})
}

// fastest takes a permit of a rate so high that it is back within a microsecond.
func (s Suite) fastest(t *testing.T) {
	a := s.New(form.MostPermits/16, time.Second) // some algorithms multiply it
	for _, l := range []limit.Limiter{
		redistest.Must(a.InMemory())(t), redistest.Must(a.OnRedis(NewMini(t).Client, "name"))(t),
	} {
		Allow(t, l, 1, true)
	}
}
