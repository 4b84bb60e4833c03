package form

import (
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// A clock of the caller that panics leaves no limit locked: the next call is served.
func TestPanicLeavesNothingLocked(t *testing.T) {
	broken := false
	clock := limit.WithClock(func() time.Time {
		if broken {
			panic("no time")
		}
		return time.Unix(1e9, 0)
	})
	one := redistest.Must(InMemory(counting, []limit.Option{clock}))(t)
	many := redistest.Must(InMemoryKeyed(counting, []limit.Option{clock}))(t)
	for what, call := range map[string]func() error{
		"Allow": func() error {
			_, err := one.Allow(t.Context(), 1)
			return err
		},
		"Do": func() error {
			return one.(Opened[int64]).Do(t.Context(), "", func(*int64, int64) {})
		},
		"Allow of a key": func() error {
			_, err := many.Allow(t.Context(), "key", 1)
			return err
		},
		"Do of a key": func() error {
			return many.(Opened[int64]).Do(t.Context(), "key", func(*int64, int64) {})
		},
	} {
		broken = true
		if !panics(call) {
			t.Errorf("%s: no panic", what)
		}
		broken = false
		done := make(chan error, 1)
		go func() { done <- call() }()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: it is locked", what)
		}
	}
}

// panics calls, and reports whether that panics.
func panics(call func() error) (did bool) {
	defer func() { did = recover() != nil }()
	_ = call()
	return false
}
