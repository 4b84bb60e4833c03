package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// TestMain lets the test binary be a process of its own specs.
func TestMain(m *testing.M) {
	if text := os.Getenv(envProcess); text != "" {
		if err := process(text, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	redistest.VerifyNoLeaks(withExamples{m})
}

// withExamples is a test run with a server for the examples.
type withExamples struct{ m *testing.M }

// exampleAddr is where the Redis of the examples listens. In the blocks of the pages it is
// localhost:6379 (TestBlocks).
var exampleAddr string

func (w withExamples) Run() int {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	if err := server.Start(); err != nil {
		panic(err)
	}
	exampleAddr = server.Addr()
	code := w.m.Run()
	server.Close()
	return code
}

// patience bounds every wait for something that must come. It is reached only by tests
// that fail.
const patience = 20 * time.Second

// A stage is what a spec works on: a server, a client for what is tested, and one for
// looking at the keys.
type stage struct {
	*testing.T
	rdb, look redis.UniversalClient
	locks     *rlock.Client
}

// onBoth runs a spec on miniredis and on a real redis-server.
func onBoth(t *testing.T, spec func(s *stage)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) {
		m := redistest.Mini(t)
		spec(newStage(t, redistest.MiniClient(t, m), redistest.MiniClient(t, m)))
	})
	t.Run("redis", func(t *testing.T) { spec(onRedis(t)) })
}

// onRedis returns a stage on a server of its own.
func onRedis(t *testing.T) *stage {
	server := redistest.Start(t)
	return newStage(t, server.Client(t), server.Admin())
}

func newStage(t *testing.T, rdb, look redis.UniversalClient) *stage {
	s := &stage{T: t, rdb: rdb, look: look}
	s.locks = s.client()
	return s
}

// client returns one more client, as of another process.
func (s *stage) client(opts ...rlock.Option) *rlock.Client {
	limiters := rratelimiter.New(s.rdb)
	s.Cleanup(func() { _ = limiters.Close() })
	return rlock.New(limiters, opts...)
}

// alone expects that nobody else holds a lock. holders has room for one.
func (s *stage) alone(holders chan struct{}) {
	s.Helper()
	select {
	case holders <- struct{}{}:
	default:
		s.Error("two holders")
	}
	<-holders
}

// must fails the test on an error.
func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// noError fails the test on an error.
func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// took returns the hold of a TryLock, and fails the test if there is none.
func took(h *rlock.Hold, ok bool, err error) func(t testing.TB) *rlock.Hold {
	return func(t testing.TB) *rlock.Hold {
		t.Helper()
		if err != nil || !ok || h == nil {
			t.Fatalf("TryLock returned %v, %v, %v; want a hold", h, ok, err)
		}
		return h
	}
}

// unanswered fails the test unless TryLock has said that Redis has not replied.
func unanswered(t testing.TB, h *rlock.Hold, ok bool, err error) {
	t.Helper()
	if h != nil || ok || !errors.Is(err, rratelimiter.ErrNoAnswer) {
		t.Errorf("TryLock of a silent server returned %v, %v, %v; want an ErrNoAnswer", h, ok, err)
	}
}

// within returns a context that ends only in a test that fails.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// want fails the test unless two values are the same.
func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
