package rlock_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
	"github.com/redisson-go/rratelimiter/rlock"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(withExamples{m}) }

// withExamples runs the tests with a server for the examples.
type withExamples struct{ m *testing.M }

// exampleAddr is the address of the Redis of the examples. On the pages it is localhost:6379 (TestBlocks).
var exampleAddr string

func (w withExamples) Run() int {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	if err := server.Start(); err != nil {
		panic(err)
	}
	exampleAddr = server.Addr()
	if !flag.Parsed() { // most specs wait most of the time
		_ = flag.Set("test.parallel", "8")
	}
	code := w.m.Run()
	server.Close()
	return code
}

// patience bounds every wait for something that must come. Only tests that fail reach it.
const patience = 20 * time.Second

// An env is what a test works on: a server, a client under test, a client for reading keys, and the name of
// a lock.
type env struct {
	*testing.T
	dial      func(mods ...func(*redis.Options)) redis.UniversalClient // as one more process
	rdb, look redis.UniversalClient
	mini      *miniredis.Miniredis // the server in a bubble, otherwise nil
	server    *redistest.Server    // the server otherwise
	set       func(time.Duration)  // sets the clock of the server, nil if it cannot be set
	cluster   *redistest.Cluster   // nil unless the env is on a cluster
	group     *redistest.Sentinel  // nil unless sentinels watch the server
	locks     *rlock.Client
	name      string
	keys      wire.LockKeys
	patience  time.Duration // of a step on a real server
}

func newEnv(t *testing.T, look redis.UniversalClient,
	dial func(mods ...func(*redis.Options)) redis.UniversalClient) *env {
	s := &env{T: t, dial: dial, rdb: dial(), look: look, patience: patience}
	s.locks = s.client()
	s.named(redistest.Name(t))
	return s
}

func (s *env) named(name string) { s.name, s.keys = name, wire.LockKeysOf(name) }

// inBubble runs a test in fake time, on a miniredis whose keys expire by it.
func inBubble(t *testing.T, spec func(s *env)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		s := newEnv(t, redistest.MiniClient(t, m), func(...func(*redis.Options)) redis.UniversalClient {
			return redistest.MiniClient(t, m)
		})
		s.mini = m
		spec(s)
	})
}

// onRedis returns an env on a server of its own. mods change the options of all its clients except look.
func onRedis(t *testing.T, mods ...func(*redis.Options)) *env {
	t.Helper()
	t.Parallel()
	return onServer(t, redistest.Start(t), mods...)
}

func onServer(t *testing.T, server *redistest.Server, mods ...func(*redis.Options)) *env {
	t.Helper()
	s := newEnv(t, server.Admin(), func(more ...func(*redis.Options)) redis.UniversalClient {
		return server.Client(t, append(more, mods...)...)
	})
	s.server = server
	return s
}

// onClock is onRedis with a server whose clock can be set.
func onClock(t *testing.T) *env {
	t.Helper()
	t.Parallel()
	server, set := redistest.StartClocked(t)
	s := onServer(t, server)
	s.set = set
	return s
}

// onBoth runs a spec in a bubble and on a real redis-server.
func onBoth(t *testing.T, spec func(s *env)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) { inBubble(t, spec) })
	t.Run("redis", func(t *testing.T) { spec(onRedis(t)) })
}

// client returns one more client, like that of another process.
func (s *env) client(opts ...rlock.Option) *rlock.Client {
	locks, _ := open(s, s.rdb, opts...)
	return locks
}

// open returns a client on rdb, and a function that closes it before the test ends.
func open(t testing.TB, rdb redis.UniversalClient, opts ...rlock.Option) (
	locks *rlock.Client, end func() error,
) {
	limiters := NewClient(t, rdb)
	return rlock.New(limiters, opts...), limiters.Close
}

// async calls a function in a goroutine, and returns a channel that receives its result.
func async[T any](call func() T) <-chan T {
	result := make(chan T, 1)
	go func() { result <- call() }()
	return result
}

// must is redistest.Must.
func must[T any](v T, err error) func(t redistest.TB) T { return redistest.Must(v, err) }

// refusal returns an error unless TryLock was refused.
func refusal(h *rlock.Hold, ok bool, err error) error {
	if err == nil && (ok || h != nil) {
		err = errors.New("it is taken")
	}
	return err
}

// errRefused is the error of took.
var errRefused = errors.New("it is refused")

// took returns the hold of a TryLock, and an error if there is none.
func took(h *rlock.Hold, ok bool, err error) (*rlock.Hold, error) {
	if err == nil && (!ok || h == nil) {
		err = errRefused
	}
	return h, err
}

// lasted fails the test unless a duration is within its bounds.
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

// scripts returns how many scripts the server has been sent.
func (s *env) scripts() int64 {
	s.Helper()
	return redistest.Calls(s, s.look, "evalsha", "eval")
}

// ran waits until the server has been sent n scripts more than before.
func (s *env) ran(before, more int64) {
	s.Helper()
	redistest.Until(s, "scripts", func() error {
		if n := s.scripts(); n < before+more {
			return fmt.Errorf("%d, not yet %d", n-before, more)
		}
		return nil
	})
}

// comes returns the next value of a channel, and fails the test if none comes.
func comes[T any](t testing.TB, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatal("nothing comes")
	}
	return v
}

// free waits until nothing is left of the lock but idempotency keys and a token. That is long before a
// lease expires.
func (s *env) free() error {
	s.Helper()
	return s.soon("a free lock", func() error {
		keys := []string{s.keys.Hash, s.keys.Queue, s.keys.Timeout}
		return equal("keys", s.look.Exists(context.Background(), keys...).Val(), 0)
	})
}

// soon calls is until it returns nil: in a bubble once, when all goroutines wait, and otherwise in time.
func (s *env) soon(what string, is func() error) error {
	s.Helper()
	if s.mini != nil {
		synctest.Wait()
		return is()
	}
	var err error
	for end := time.Now().Add(s.patience); ; time.Sleep(5 * time.Millisecond) {
		if err = is(); err == nil || time.Now().After(end) {
			break
		}
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return err
}

// equal returns an error unless two values are the same.
func equal[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: %v, want %v", what, got, want)
	}
	return nil
}

// pass locks and unlocks a lock.
func pass(ctx context.Context, lock rlock.Locker) error {
	h, err := lock.Lock(ctx)
	if err != nil {
		return err
	}
	return h.Unlock(ctx)
}

// A kind returns the lock of that kind.
type kind func(c *rlock.Client, name string) locker

// A locker has the methods of all kinds of locks.
type locker interface {
	rlock.Locker
	ForceUnlock(ctx context.Context) (bool, error)
	IsLocked(ctx context.Context) (bool, error)
	RemainTimeToLive(ctx context.Context) (time.Duration, error)
}

// kinds are the kinds of locks as docs/lock.md names them.
var kinds = map[string]kind{
	"plain":  func(c *rlock.Client, name string) locker { return c.Lock(name) },
	"fenced": func(c *rlock.Client, name string) locker { return c.FencedLock(name) },
	"fair":   func(c *rlock.Client, name string) locker { return c.FairLock(name) },
}

// eachKind runs a spec with each kind of lock.
func eachKind(t *testing.T, spec func(t *testing.T, of kind)) {
	t.Helper()
	t.Parallel()
	for name, of := range kinds {
		t.Run(name, func(t *testing.T) { spec(t, of) })
	}
}
