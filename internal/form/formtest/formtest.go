// Package formtest checks the forms of an algorithm. Each passes package limittest, in memory and on
// Redis, and all are the same limiter. Beyond that it checks promises that need more than one limiter: the
// bound when the clock is set, late and lost replies, and foreign data under the key.
package formtest

import (
	"context"
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

// A Limiter is what all limiters of the packages under limit/ can do.
type Limiter interface {
	limit.Releaser
	limit.Peeker
}

// A Lender is a Limiter whose grants can be returned.
type Lender interface {
	TryReserve(ctx context.Context, n int64) (*limit.Reservation, limit.Result, error)
}

// Limiters are what an algorithm makes: one limit, and by For one for each key.
type Limiters struct {
	Limiter
	of func(key string) Limiter
}

// For implements limit.Keyed.
func (l Limiters) For(key string) Limiter { return l.of(key) }

// An Algorithm makes limiters in memory and on Redis.
type Algorithm struct {
	InMemory func(opts ...limit.Option) (Limiters, error)
	OnRedis  func(rdb redis.UniversalClient, name string) (Limiters, error)
}

// A keyed is a Limiter, and by For one for each key.
type keyed[L any] interface {
	Limiter
	For(key string) L
}

// Of returns the Algorithm of a Maker.
func Of[L keyed[L]](m form.Maker[L]) Algorithm {
	return Algorithm{
		InMemory: func(opts ...limit.Option) (Limiters, error) { return LimitersOf(m.InMemory(opts...)) },
		OnRedis: func(rdb redis.UniversalClient, name string) (Limiters, error) {
			return LimitersOf(m.OnRedis(rdb, name))
		},
	}
}

// LimitersOf returns the Limiters of a limiter, or the error of its making.
func LimitersOf[L keyed[L]](l L, err error) (Limiters, error) {
	if err != nil {
		return Limiters{}, err
	}
	return Limiters{l, func(key string) Limiter { return l.For(key) }}, nil
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

// Refuses expects that algorithms out of their bounds make no limiters, and that each error contains the
// text of its algorithm.
func Refuses[A form.Maker[L], L keyed[L]](t *testing.T, wrong map[string]A) {
	t.Helper()
	for text, a := range wrong {
		refused := func(l L, err error) {
			if !reflect.ValueOf(l).IsZero() || !errors.Is(err, limit.ErrInvalidArgument) ||
				!strings.Contains(err.Error(), text) {
				t.Errorf("%+v: %v, want %q", a, err, text)
			}
		}
		refused(a.InMemory())
		refused(a.OnRedis(nil, "name"))
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
	onMini := func(t *testing.T, a Algorithm) (Limiters, error) {
		return a.OnRedis(NewMini(t).Client, redistest.Name(t))
	}
	for name, of := range map[string]func(t *testing.T, a Algorithm) (Limiters, error){
		"InMemory": func(_ *testing.T, a Algorithm) (Limiters, error) { return a.InMemory() },
		"OnRedis":  onMini,
	} {
		t.Run(name, func(t *testing.T) {
			limittest.TestLimiter(t, limittest.Spec{
				New: func(t *testing.T, rate int64, interval time.Duration) limit.Limiter {
					return redistest.Must(of(t, s.New(rate, interval)))(t)
				},
				Algorithm: s.Kind, Synctest: true,
			})
		})
	}
	t.Run("InMemory For", func(t *testing.T) {
		limittest.TestKeyed(t, limittest.KeyedSpec[Limiter]{
			New: func(t *testing.T, rate int64, interval time.Duration) limit.Keyed[Limiter] {
				return redistest.Must(s.New(rate, interval).InMemory())(t)
			},
			Algorithm: s.Kind, Synctest: true,
		})
	})
	t.Run("OnRedis For", func(t *testing.T) {
		server := redistest.Start(t)
		one, other := server.Client(t), server.Client(t)
		pair := func(t *testing.T, rate int64, interval time.Duration) (a, b limit.Keyed[Limiter]) {
			of, name := s.New(rate, interval), redistest.Name(t)
			return redistest.Must(of.OnRedis(one, name))(t), redistest.Must(of.OnRedis(other, name))(t)
		}
		limittest.TestKeyed(t, limittest.KeyedSpec[Limiter]{
			New: func(t *testing.T, rate int64, interval time.Duration) limit.Keyed[Limiter] {
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
