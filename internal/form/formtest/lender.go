package formtest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// lends checks Lend and Return of each form, in a bubble.
func (s Suite) lends(t *testing.T) {
	t.Parallel()
	a := s.New(10, time.Hour)
	for name, made := range map[string]func(t *testing.T) (any, error){
		"InMemory":      func(*testing.T) (any, error) { return a.InMemory() },
		"InMemoryKeyed": func(*testing.T) (any, error) { return a.InMemoryKeyed() },
		"OnRedis": func(t *testing.T) (any, error) {
			return a.OnRedis(redistest.MiniClient(t, redistest.Mini(t)), "name")
		},
		"OnRedisKeyed": func(t *testing.T) (any, error) {
			return a.OnRedisKeyed(redistest.MiniClient(t, redistest.Mini(t)), "name")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, err := made(t)
				s.returned(t, lenderOf(t, l, err))
			})
		})
	}
}

// lenderOf returns a limiter of the package form.
func lenderOf(t *testing.T, l any, err error) form.Lender {
	t.Helper()
	lender, ok := must(t, l, err).(form.Lender)
	if !ok {
		t.Fatalf("%T is no Lender", l)
	}
	return lender
}

// returned expects that what is out comes back, and that what has come back by itself, so
// that others may have it, does not come once more.
func (s Suite) returned(t *testing.T, l form.Lender) {
	t.Helper()
	const key = "key"
	lend := func(n int64, want bool) form.Answer {
		t.Helper()
		r, a, err := l.Lend(t.Context(), key, n)
		if err != nil || r.Allowed != want {
			t.Errorf("Lend(%d): %+v, %v; want %v", n, r, err, want)
		}
		return a
	}
	back := func(n int64, a form.Answer) {
		t.Helper()
		if err := l.Return(t.Context(), key, n, a); err != nil {
			t.Errorf("Return(%d): %v", n, err)
		}
	}
	back(10, lend(10, true))
	first := lend(10, true)
	lend(1, false)
	time.Sleep(time.Duration(first.Reset)*time.Microsecond + s.Grain)
	second := lend(10, true)
	back(10, first)
	lend(1, false)
	time.Sleep(time.Minute)
	back(10, second)
	back(10, lend(9, true))
}

// ReturnsInPart expects of a bucket of 10 in an hour, which has filled a little since
// permits were taken, that only the others of them can be given back on Redis.
func ReturnsInPart(t *testing.T, a Algorithm) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l, err := a.OnRedis(redistest.MiniClient(t, redistest.Mini(t)), "name")
		lender := lenderOf(t, l, err)
		lend := func(n int64, want bool) form.Answer {
			t.Helper()
			r, a, err := lender.Lend(t.Context(), "", n)
			if err != nil || r.Allowed != want {
				t.Errorf("Lend(%d): %+v, %v; want %v", n, r, err, want)
			}
			return a
		}
		first := lend(4, true) // they are back in 24 minutes
		time.Sleep(12 * time.Minute)
		lend(8, true)
		if err := lender.Return(t.Context(), "", 4, first); err != nil {
			t.Error(err)
		}
		lend(3, false)
		lend(2, true)
	})
}
