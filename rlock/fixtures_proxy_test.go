package rlock_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// A proxied is an env whose client reaches its server through a proxy, which can break requests and
// replies. other is the client of another process with a direct connection.
type proxied struct {
	*env
	server *redistest.Server
	proxy  *redistest.Proxy
	other  *rlock.Client
	name   string // of the lock of the spec
}

// viaProxy returns an env with a proxy. Its server knows the scripts already, so that the first EVALSHA
// counts.
func viaProxy(t *testing.T, mods ...func(*redis.Options)) *proxied {
	t.Helper()
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	rdb := server.Client(t, append([]func(*redis.Options){func(o *redis.Options) {
		o.Addr, o.MinRetryBackoff, o.MaxRetryBackoff = proxy.Addr, time.Millisecond, 5*time.Millisecond
	}}, mods...)...)
	other, _ := open(t, server.Admin())
	r := &proxied{newEnv(t, rdb, server.Admin()), server, proxy, other, redistest.Name(t)}
	noError(t, pass(t.Context(), r.rival()))
	r.tidied(r.locks)
	r.tidied(r.other)
	return r
}

// tidied returns when a process has removed the idempotency keys that it no longer needs.
func (s *env) tidied(locks *rlock.Client) {
	s.Helper()
	other := redistest.Name(s)
	noError(s, pass(context.Background(), locks.Lock(other)))
	redistest.Eventually(s, "no idempotency key", func() bool { return s.idempotencyKeys(other) == 0 })
}

// idempotencyKeys returns how many idempotency keys a lock has, or all locks of a server if it is "*".
func (s *env) idempotencyKeys(name string) int {
	s.Helper()
	pattern := "redisson_unlock_latch:{" + name + "}*"
	return len(must(s.look.Keys(context.Background(), pattern).Result())(s))
}

// lock and rival are the lock of the spec in this process and in the other one.
func (r *proxied) lock() *rlock.Lock  { return r.locks.Lock(r.name) }
func (r *proxied) rival() *rlock.Lock { return r.other.Lock(r.name) }

// isLock and isUnlock tell the scripts of a plain lock, which have two keys, by how many arguments these
// have.
func isLock(args []string) bool   { return keysOf(args) == "2" && len(args) == 5+3 }
func isUnlock(args []string) bool { return keysOf(args) == "2" && len(args) >= 5+6 }

// keysOf returns how many keys the script has that a request runs, "" if it runs none.
func keysOf(args []string) string {
	if len(args) < 3 || !strings.HasPrefix(strings.ToLower(args[0]), "eval") {
		return ""
	}
	return args[2]
}

// sendsOnce has a client send each request a single time.
func sendsOnce(o *redis.Options) { o.MaxRetries = -1 }

// A firstCopy is a call whose request is on its way for longer than the client waits.
type firstCopy struct {
	proxied *proxied
	release func()
	result  <-chan error
}

// holds makes a call, whose first request that matches is held on its way.
func (r *proxied) holds(match func(args []string) bool, call func() error) *firstCopy {
	r.Helper()
	before := r.proxy.Held()
	c := &firstCopy{r, r.proxy.HoldNext(1, match), async(call)}
	redistest.Eventually(r, "a request on its way", func() bool { return r.proxy.Held() != before })
	return c
}

// overtaken breaks the connection, and returns the result of the second copy.
func (c *firstCopy) overtaken() error {
	c.proxied.proxy.Cut()
	return comes(c.proxied, c.result)
}

// arrives lets the first copy reach the server, and returns when it has been carried out: a connection is
// served in order, and the server closes it after what it was sent.
func (c *firstCopy) arrives() {
	c.proxied.Helper()
	before := c.proxied.scripts()
	c.release()
	c.proxied.ran(before, 1)
}

// ran waits until the server has been sent so many scripts more than before.
func (s *env) ran(before, more int64) {
	s.Helper()
	redistest.Until(s, "scripts", func() error {
		if n := s.scripts(); n < before+more {
			return fmt.Errorf("%d, not yet %d", n-before, more)
		}
		return nil
	})
}

// scripts returns how many scripts the server has been sent.
func (s *env) scripts() int64 {
	s.Helper()
	return redistest.Calls(s, s.look, "evalsha", "eval")
}

// comes returns what comes, and fails the test if nothing does.
func comes[T any](t testing.TB, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatal("nothing comes")
	}
	return v
}

// owners returns the owner of a lock in Redis, with how often it holds it.
func (s *env) owners(name string) map[string]string {
	s.Helper()
	return must(s.look.HGetAll(context.Background(), name).Result())(s)
}

// free waits until the lock is free in Redis, which must be long before a lease expires.
func (s *env) free(name string) {
	s.Helper()
	start := time.Now()
	redistest.Eventually(s, "a free lock", func() bool { return len(s.owners(name)) == 0 })
	lasted(s, "the lock was free after", time.Since(start), 0, patience)
}

// frozen returns what keeps back all that a client sends, as if its server were frozen, until thaw is
// called.
func frozen(rdb redis.UniversalClient) (freeze func() (thaw func())) {
	var gate atomic.Pointer[chan struct{}] // nil if it is open
	rdb.AddHook(redistest.Hook(func(context.Context, ...redis.Cmder) error {
		if opens := gate.Load(); opens != nil {
			<-*opens
		}
		return nil
	}))
	return func() (thaw func()) {
		opens := make(chan struct{})
		gate.Store(&opens)
		return func() {
			gate.Store(nil)
			close(opens)
		}
	}
}

// fails makes what a client sends fail, and counts how often, until back is called.
func fails(rdb redis.UniversalClient) (times *atomic.Int64, back func()) {
	times = new(atomic.Int64)
	var ended atomic.Bool
	rdb.AddHook(redistest.Hook(func(context.Context, ...redis.Cmder) error {
		if ended.Load() {
			return nil
		}
		times.Add(1)
		return redis.ErrPoolTimeout
	}))
	return times, func() { ended.Store(true) }
}

// inBubble runs a spec in fake time, on a miniredis whose keys expire by it.
func inBubble(t *testing.T, spec func(s *env)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		s := newEnv(t, redistest.MiniClient(t, m), redistest.MiniClient(t, m))
		s.mini = m
		spec(s)
	})
}
