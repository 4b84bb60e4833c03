package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// exampleAddr is where the Redis of the examples listens. In the blocks of the pages it is localhost:6379
// (TestBlocks).
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

// patience bounds every wait for something that must come. It is reached only by tests that fail.
const patience = 20 * time.Second

// An env is what a spec works on: a server, a client for what is tested, and one for looking at the keys.
type env struct {
	*testing.T
	rdb, look redis.UniversalClient
	mini      *miniredis.Miniredis // its server in a bubble, otherwise nil
	locks     *rlock.Client
}

// onBoth runs a spec on miniredis and on a real redis-server. It makes the test parallel, as all do that
// return an env or pass one to a spec.
func onBoth(t *testing.T, spec func(s *env)) {
	t.Helper()
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		m := redistest.Mini(t)
		spec(newEnv(t, redistest.MiniClient(t, m), redistest.MiniClient(t, m)))
	})
	t.Run("redis", func(t *testing.T) { spec(onRedis(t)) })
}

// onRedis returns an env on a server of its own.
func onRedis(t *testing.T) *env {
	t.Helper()
	t.Parallel()
	server := redistest.Start(t)
	return newEnv(t, server.Client(t), server.Admin())
}

func newEnv(t *testing.T, rdb, look redis.UniversalClient) *env {
	s := &env{T: t, rdb: rdb, look: look}
	s.locks = s.client()
	return s
}

// client returns one more client, as of another process.
func (s *env) client(opts ...rlock.Option) *rlock.Client {
	locks, _ := open(s, s.rdb, opts...)
	return locks
}

// open returns a client on rdb, and what closes it before the test ends.
func open(t testing.TB, rdb redis.UniversalClient, opts ...rlock.Option) (
	locks *rlock.Client, end func() error,
) {
	limiters := rratelimiter.New(rdb)
	t.Cleanup(func() { _ = limiters.Close() })
	return rlock.New(limiters, opts...), limiters.Close
}

// async calls a function in a goroutine, and returns the channel of its result.
func async[T any](call func() T) <-chan T {
	result := make(chan T, 1)
	go func() { result <- call() }()
	return result
}

// alone fails the test if the lock has another holder. holders has room for one.
func (s *env) alone(holders chan struct{}) {
	s.Helper()
	select {
	case holders <- struct{}{}:
	default:
		s.Error("two holders")
	}
	<-holders
}

// starts starts a caller of Lock, and returns the channel of its hold, which is nil if ctx ends first.
func (s *env) starts(ctx context.Context, lock locker) <-chan *rlock.Hold {
	return async(func() *rlock.Hold {
		h, err := lock.Lock(ctx)
		if err != nil && ctx.Err() == nil {
			s.Errorf("a waiter: %v", err)
		}
		return h
	})
}

// waits is starts in a bubble, and returns when the caller waits.
func (s *env) waits(ctx context.Context, lock locker) <-chan *rlock.Hold {
	came := s.starts(ctx, lock)
	synctest.Wait()
	return came
}

// must is redistest.Must.
func must[T any](v T, err error) func(t redistest.TB) T { return redistest.Must(v, err) }

// noError fails the test on an error.
var noError = redistest.NoError

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

// unanswered fails the test unless TryLock returned an ErrNoAnswer.
func unanswered(t testing.TB, h *rlock.Hold, ok bool, err error) {
	t.Helper()
	if h != nil || ok || !errors.Is(err, rratelimiter.ErrNoAnswer) {
		t.Errorf("TryLock of a silent server returned %v, %v, %v; want an ErrNoAnswer", h, ok, err)
	}
}

// wantErr fails the test unless an error is the one that is wanted, or wraps it.
func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// wantEnded fails the test unless an error is that of a hold that was unlocked, and not lost.
func wantEnded(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, rlock.ErrNotHeld) || errors.Is(err, rlock.ErrLost) {
		t.Errorf("%s: %v, want ErrNotHeld", what, err)
	}
}

// lasted fails the test unless a time is within its bounds.
func lasted(t testing.TB, what string, d, least, most time.Duration) {
	t.Helper()
	if d < least || d > most {
		t.Errorf("%s: %v, want %v to %v", what, d, least, most)
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

// count counts the commands that are sent from now on by the client of the env.
func (s *env) count() *atomic.Int64 {
	n := new(atomic.Int64)
	s.rdb.AddHook(redistest.Hook(func(_ context.Context, cmds ...redis.Cmder) error {
		n.Add(int64(len(cmds)))
		return nil
	}))
	return n
}
