package formtest

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// releases checks Release of each form, in a bubble.
func (s Suite) releases(t *testing.T) {
	t.Parallel()
	for name, form := range map[string]func(t *testing.T, a Algorithm) (limit.Releaser, error){
		"InMemory": func(_ *testing.T, a Algorithm) (limit.Releaser, error) { return a.InMemory() },
		"OnRedis": func(t *testing.T, a Algorithm) (limit.Releaser, error) {
			return a.OnRedis(redistest.MiniClient(t, redistest.Mini(t)), "name")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				released(t, redistest.Must(form(t, s.New(10, time.Hour)))(t))
			})
		})
	}
}

// released expects that permits that were given back can be taken, once.
func released(t *testing.T, l limit.Releaser) {
	t.Helper()
	ctx := t.Context()
	has := func(n int64, want bool) {
		t.Helper()
		if r, err := l.Allow(ctx, n); err != nil || r.Allowed != want {
			t.Errorf("Allow(%d): %+v, %v; want %v", n, r, err, want)
		}
	}
	back := func(n int64) {
		t.Helper()
		if err := l.Release(ctx, n); err != nil {
			t.Errorf("Release(%d): %v", n, err)
		}
	}
	back(3) // of nothing
	has(10, true)
	has(1, false)
	back(10)
	has(10, true)
	time.Sleep(time.Minute)
	back(10)
	back(10) // once more than it was taken
	has(10, true)
	has(1, false)
	for _, n := range []int64{0, -1, math.MinInt64} {
		if err := l.Release(ctx, n); !errors.Is(err, limit.ErrInvalidArgument) {
			t.Errorf("Release(%d): %v", n, err)
		}
	}
	has(1, false)
}
