package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// A road is a stage whose client reaches its server through a proxy, which can do harm to what
// passes. other is the client of another process, which goes another way.
type road struct {
	*stage
	server *redistest.Server
	proxy  *redistest.Proxy
	other  *rlock.Client
	name   string // of the lock of the spec
}

// onRoad returns a road. Its server knows the scripts already, so that the first EVALSHA is
// the one that counts.
func onRoad(t *testing.T, mods ...func(*redis.Options)) *road {
	t.Helper()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	rdb := server.Client(t, append([]func(*redis.Options){func(o *redis.Options) {
		o.Addr, o.MinRetryBackoff, o.MaxRetryBackoff = proxy.Addr, time.Millisecond, 5*time.Millisecond
	}}, mods...)...)
	limiters := rratelimiter.New(server.Admin())
	t.Cleanup(func() { _ = limiters.Close() })
	r := &road{newStage(t, rdb, server.Admin()), server, proxy, rlock.New(limiters), redistest.Name(t)}
	h := must(r.other.Lock(r.name).Lock(t.Context()))(t)
	noError(t, h.Unlock(t.Context()))
	r.tidied(r.locks)
	r.tidied(r.other)
	return r
}

// tidied returns when a process has removed the latches that it did not need any more.
func (s *stage) tidied(locks *rlock.Client) {
	s.Helper()
	other := redistest.Name(s)
	h := must(locks.Lock(other).Lock(context.Background()))(s)
	noError(s, h.Unlock(context.Background()))
	redistest.Until(s, "no latch", func() error {
		pattern := "redisson_unlock_latch:{" + other + "}*"
		if latches := must(s.look.Keys(context.Background(), pattern).Result())(s); len(latches) > 0 {
			return errors.New("not yet")
		}
		return nil
	})
}

// lock and rival are the lock of the spec in this process and in the other one.
func (r *road) lock() *rlock.Lock  { return r.locks.Lock(r.name) }
func (r *road) rival() *rlock.Lock { return r.other.Lock(r.name) }

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
	road    *road
	release func()
	told    chan error
}

// holds makes a call, whose first request that matches is held on its way.
func (r *road) holds(match func(args []string) bool, call func() error) *firstCopy {
	r.Helper()
	c := &firstCopy{r, r.proxy.HoldNext(1, match), make(chan error, 1)}
	before := r.proxy.Held()
	go func() { c.told <- call() }()
	redistest.Until(r, "a request on its way", func() error {
		if r.proxy.Held() == before {
			return errors.New("none yet")
		}
		return nil
	})
	return c
}

// overtaken breaks the connection, and returns what the call is told to its second copy.
func (c *firstCopy) overtaken() error {
	c.road.proxy.Cut()
	return comes(c.road, c.told)
}

// arrives lets the first copy reach the server, and returns when it has been carried out: a
// connection is served in order, and the server closes it after what it was sent.
func (c *firstCopy) arrives() {
	c.road.Helper()
	before := c.road.scripts()
	c.release()
	c.road.ran(before, 1)
}

// ran waits until the server has been sent so many scripts more than before.
func (s *stage) ran(before, more int64) {
	s.Helper()
	redistest.Until(s, "scripts", func() error {
		if n := s.scripts(); n < before+more {
			return fmt.Errorf("%d, not yet %d", n-before, more)
		}
		return nil
	})
}

// scripts returns how many scripts the server has been sent.
func (s *stage) scripts() (n int64) {
	s.Helper()
	for line := range strings.Lines(must(s.look.Info(context.Background(), "commandstats").Result())(s)) {
		var calls int64
		for _, format := range []string{"cmdstat_evalsha:calls=%d,", "cmdstat_eval:calls=%d,"} {
			if _, err := fmt.Sscanf(line, format, &calls); err == nil {
				n += calls
			}
		}
	}
	return n
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

// owners returns who has a lock in Redis, with how often.
func (s *stage) owners(name string) map[string]string {
	s.Helper()
	return must(s.look.HGetAll(context.Background(), name).Result())(s)
}

// free waits until nobody has the lock in Redis, which must be long before a lease is over.
func (s *stage) free(name string) {
	s.Helper()
	start := time.Now()
	redistest.Until(s, "that the lock is free", func() error {
		if owners := s.owners(name); len(owners) > 0 {
			return fmt.Errorf("after %v %v have it", time.Since(start), owners)
		}
		return nil
	})
	if waited := time.Since(start); waited > patience {
		s.Errorf("the lock was free only after %v", waited)
	}
}

// A gate lets commands through to Redis, or keeps them as a server does that is frozen.
type gate struct {
	shut chan chan struct{} // has the channel that opens the gate, nil if it is open
}

// frozen adds a gate to a client. freeze shuts it until thaw is called.
func frozen(rdb redis.UniversalClient) (freeze func() (thaw func())) {
	g := &gate{shut: make(chan chan struct{}, 1)}
	g.shut <- nil
	rdb.AddHook(g)
	return func() (thaw func()) {
		open := make(chan struct{})
		<-g.shut
		g.shut <- open
		return func() {
			<-g.shut
			g.shut <- nil
			close(open)
		}
	}
}

func (g *gate) pass() {
	open := <-g.shut
	g.shut <- open
	if open != nil {
		<-open
	}
}

func (*gate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		g.pass()
		return next(ctx, cmd)
	}
}

func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		g.pass()
		return next(ctx, cmds)
	}
}

// inBubble runs a spec in fake time, on a miniredis whose keys expire by it.
func inBubble(t *testing.T, spec func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		spec(newStage(t, redistest.MiniClient(t, m), redistest.MiniClient(t, m)))
	})
}
