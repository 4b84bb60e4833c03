package clusters_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// The rules of docs/keys.md, by their places.
const (
	ruleOfAll = iota + 1
	ruleOfCluster
	ruleOfSentinel
)

// rule returns the rights in an ACL SETUSER of docs/keys.md.
func rule(t *testing.T, which int) []string {
	t.Helper()
	return redistest.Rights(t, "../../docs/keys.md", "app", which)
}

// A guarded is a server, clients of a user with few rights, and the limiter "api".
type guarded struct {
	*testing.T
	rdb   redis.UniversalClient // of the user
	look  *redis.Client         // of a user that may do everything, on the server that has the limiter
	nodes []*redis.Client       // the same on all servers
	c     *rratelimiter.Client
	l, lo *rratelimiter.RateLimiter // of two Clients, the other of which knows no Java

	without string // the right that the user lacks
}

const guardedName, guardedNext = "api", "{api}:next"

func newGuarded(t *testing.T, rdb redis.UniversalClient, look *redis.Client) *guarded {
	g := &guarded{T: t, rdb: rdb, look: look, nodes: []*redis.Client{look}, c: rratelimiter.New(rdb)}
	o := rratelimiter.New(rdb, rratelimiter.WithGoOnly())
	t.Cleanup(func() { _, _ = g.c.Close(), o.Close() })
	g.l, g.lo = g.c.RateLimiter(guardedName), o.RateLimiter(guardedName)
	return g
}

// fresh leaves nothing of the limiter, or one of 10 in an interval.
func (g *guarded) fresh(interval time.Duration) {
	g.Helper()
	NoError(g.T, g.look.FlushDB(g.Context()).Err())
	if interval > 0 {
		NoError(g.T, g.look.HSet(g.Context(), guardedName, "rate", 10, "interval", interval.Milliseconds(),
			"type", 0, "keepAliveTime", 0).Err())
	}
}

// A deed is what a user does with a limiter of 10 that is prepared.
type deed struct {
	name     string
	interval time.Duration // 0: no rate is set
	do       func(ctx context.Context, g *guarded) error

	// only is the right for which a deed is done that takes long; empty for all.
	only string
}

// all returns the first error.
func all(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// deeds drive every path of every script.
var deeds = []deed{
	{name: "TrySetRate", do: func(ctx context.Context, g *guarded) error {
		return Yes(g.l.TrySetRate(ctx, Overall, 10, time.Hour))
	}},
	{name: "SetRate", interval: time.Hour, do: func(ctx context.Context, g *guarded) error {
		return all(Yes(g.l.TryAcquire(ctx, 1, 0)), g.l.SetRate(ctx, PerClient, 10, time.Hour),
			Yes(g.l.TryAcquire(ctx, 1, 0)), g.l.SetRate(ctx, Overall, 10, time.Hour))
	}},
	{name: "UpdateRate WithKeepState", interval: time.Hour, do: func(ctx context.Context, g *guarded) error {
		return all(Yes(g.l.TryAcquire(ctx, 1, 0)),
			Yes(g.l.UpdateRate(ctx, Overall, 20, time.Hour, rratelimiter.WithKeepState())))
	}},
	{name: "WithKeepAlive", do: func(ctx context.Context, g *guarded) error {
		return all(g.l.SetRate(ctx, Overall, 10, time.Hour, rratelimiter.WithKeepAlive(2*time.Hour)),
			Yes(g.l.TryAcquire(ctx, 2, 0)), Yes(g.l.TryAcquire(ctx, 2, 0)), g.l.Release(ctx, 1),
			g.l.SetRate(ctx, Overall, 10, time.Hour))
	}},
	{name: "TryAcquire", interval: time.Hour, do: func(ctx context.Context, g *guarded) error {
		return all(Yes(g.l.TryAcquire(ctx, 2, 0)), Yes(g.l.TryAcquire(ctx, 2, 0)))
	}},
	{name: "TryAcquire, refused", interval: time.Hour, do: func(ctx context.Context, g *guarded) error {
		return all(Yes(g.l.TryAcquire(ctx, 8, 0)), No(g.l.TryAcquire(ctx, 5, 0)),
			ErrOf(g.l.Allow(ctx, 5)))
	}},
	{name: "TryAcquire after records have expired", interval: 2 * time.Millisecond,
		do: func(ctx context.Context, g *guarded) error {
			for range 3 {
				if err := Yes(g.l.TryAcquire(ctx, 10, Patience)); err != nil {
					return err
				}
				// A wrong value takes the general case, however late the next call comes.
				NoError(g.T, g.look.Set(ctx, "{"+guardedName+"}:value", 1, redis.KeepTTL).Err())
			}
			return nil
		}},
	{name: "TryAcquire among many Clients", interval: time.Hour,
		do: func(ctx context.Context, g *guarded) error {
			for i := range 12 {
				NoError(g.T, g.look.HSet(ctx, guardedName, fmt.Sprint("session:", i),
					"0000000000000001 1000 1 1000").Err())
			}
			return Yes(g.l.TryAcquire(ctx, 1, 0))
		}},
	{name: "Keyed", do: func(ctx context.Context, g *guarded) error {
		keyed := g.c.Keyed("{api}:user", 5, time.Hour)
		return all(keyed.Acquire(ctx, "42", 2), No(keyed.TryAcquire(ctx, "42", 4, 0)),
			ErrOf(keyed.RateLimiter("43").Peek(ctx)))
	}},
	{name: "All", interval: time.Hour, do: func(ctx context.Context, g *guarded) error {
		user := g.c.Keyed("{api}:user", 5, time.Hour)
		both := g.c.All(g.l, user.RateLimiter("42"))
		if err := Yes(both.TryAcquire(ctx, 2, 0)); err != nil {
			return err
		}
		err := ErrOf(g.c.All(g.l, g.c.RateLimiter("{api}:without")).Allow(ctx, 1))
		if !errors.Is(err, rratelimiter.ErrNotInitialized) {
			return fmt.Errorf("%w, want no rate", err)
		}
		return No(both.TryAcquire(ctx, 4, 0))
	}},
	{name: "Release", interval: time.Hour, do: func(ctx context.Context, g *guarded) error {
		return all(Yes(g.l.TryAcquire(ctx, 5, 0)), Yes(g.l.TryAcquire(ctx, 2, 0)), g.l.Release(ctx, 3),
			g.l.Release(ctx, 4))
	}},
	{name: "WithResolution", interval: time.Hour, do: func(ctx context.Context, g *guarded) error {
		c := rratelimiter.New(g.rdb, rratelimiter.WithResolution(time.Minute))
		defer c.Close()
		l := c.RateLimiter(guardedName)
		return all(Yes(l.TryAcquire(ctx, 2, 0)), Yes(l.TryAcquire(ctx, 2, 0)))
	}},
	{name: "PerClient", do: func(ctx context.Context, g *guarded) error {
		return all(g.l.SetRate(ctx, PerClient, 10, time.Hour), Yes(g.l.TryAcquire(ctx, 2, 0)),
			Yes(g.lo.TryAcquire(ctx, 10, 0)), Yes(g.l.TryAcquire(ctx, 8, 0)))
	}},
	{name: "Peek", interval: time.Hour, do: func(ctx context.Context, g *guarded) error {
		return all(Yes(g.l.TryAcquire(ctx, 2, 0)), ErrOf(g.l.Peek(ctx)), ErrOf(g.l.AvailablePermits(ctx)))
	}},
	{name: "Repair", interval: time.Hour, do: func(ctx context.Context, g *guarded) error {
		NoError(g.T, g.look.ZAdd(ctx, "{api}:permits",
			redis.Z{Score: float64(time.Now().UnixMilli()), Member: "\x05\x00\x00\x00\x03\x00\x00\x00"},
			redis.Z{Score: float64(time.Now().UnixMilli()), Member: "nothing"}).Err())
		return ErrOf(g.l.Repair(ctx))
	}},
	{name: "Config", interval: time.Hour, do: func(ctx context.Context, g *guarded) error {
		return ErrOf(g.l.Config(ctx))
	}},
	{name: "Exists", interval: time.Hour, do: func(ctx context.Context, g *guarded) error {
		return Yes(g.l.Exists(ctx))
	}},
	{name: "Expire", interval: time.Hour, do: func(ctx context.Context, g *guarded) error {
		return all(Yes(g.l.TryAcquire(ctx, 2, 0)), Yes(g.l.Expire(ctx, time.Hour)),
			Yes(g.l.ExpireIfSet(ctx, time.Hour)), Yes(g.l.TryAcquire(ctx, 2, 0)))
	}},
	{name: "ExpireAt", interval: time.Hour, do: func(ctx context.Context, g *guarded) error {
		return Yes(g.l.ExpireAt(ctx, time.Now().Add(time.Hour)))
	}},
	{name: "ClearExpire", interval: time.Hour, do: func(ctx context.Context, g *guarded) error {
		return all(Yes(g.l.Expire(ctx, time.Hour)), Yes(g.l.ClearExpire(ctx)))
	}},
	{name: "the first call on a server", interval: time.Hour,
		do: func(ctx context.Context, g *guarded) error {
			NoError(g.T, g.look.ScriptFlush(ctx).Err())
			return Yes(g.l.TryAcquire(ctx, 1, 0))
		}},
	{name: "a wait beside Java", only: "+zrevrange", interval: 200 * time.Millisecond,
		do: func(ctx context.Context, g *guarded) error {
			c := rratelimiter.New(g.rdb)
			defer c.Close()
			l := c.RateLimiter(guardedName)
			return all(Yes(l.TryAcquire(ctx, 10, 0)), Yes(l.TryAcquire(ctx, 1, Patience)))
		}},
	{name: "a wait of some seconds", only: "+ping", interval: time.Hour,
		do: func(ctx context.Context, g *guarded) error {
			stop, err := g.l.OnDeleted(ctx, func(string) {})
			if err != nil {
				return err
			}
			defer stop()
			timer := time.NewTimer(3500 * time.Millisecond) // the connection is checked every 3 s
			defer timer.Stop()
			<-timer.C
			return nil
		}},
	{name: "RemainTimeToLive", interval: time.Hour, do: func(ctx context.Context, g *guarded) error {
		return ErrOf(g.l.RemainTimeToLive(ctx))
	}},
	{name: "ExpireTime", interval: time.Hour, do: func(ctx context.Context, g *guarded) error {
		return ErrOf(g.l.ExpireTime(ctx))
	}},
	{name: "Rename", interval: time.Hour, do: func(ctx context.Context, g *guarded) error {
		l := g.c.RateLimiter(guardedName)
		return all(Yes(l.TryAcquire(ctx, 2, 0)), l.Rename(ctx, guardedNext), Yes(l.Exists(ctx)))
	}},
	{name: "Delete", interval: time.Hour, do: func(ctx context.Context, g *guarded) error {
		return Yes(g.l.Delete(ctx))
	}},
	{name: "a wake-up", interval: time.Hour, do: func(ctx context.Context, g *guarded) error {
		NoError(g.T, g.look.Set(ctx, "{api}:value", 10, 0).Err())
		if err := Yes(g.l.TryAcquire(ctx, 10, 0)); err != nil {
			return err
		}
		subscribed := func() (n int64) {
			for _, node := range g.nodes {
				n += node.PubSubNumSub(ctx, "{api}:changed").Val()["{api}:changed"]
			}
			return n
		}
		Until(g.T, func() bool { return subscribed() == 0 }) // by a deed before
		woken := make(chan error, 1)
		go func() {
			const timeout = 1500 * time.Millisecond // at its end it looks once more
			start := time.Now()
			err := Yes(g.lo.TryAcquire(ctx, 1, timeout))
			if err == nil && time.Since(start) >= timeout {
				err = errors.New("not before its timeout")
			}
			woken <- err
		}()
		Until(g.T, func() bool { return subscribed() > 0 || len(woken) > 0 })
		if g.without == "+publish" {
			g.settles() // a waiter looks once more when its subscription is confirmed
		}
		return all(g.l.Release(ctx, 1), <-woken)
	}},
	{name: "OnExpired and OnDeleted", interval: time.Hour, do: func(ctx context.Context, g *guarded) error {
		stop, err := g.l.OnExpired(ctx, func(string) {})
		if err != nil {
			return err
		}
		defer stop()
		return Stopped(g.l.OnDeleted(ctx, func(string) {}))
	}},
	{name: "the kind of a key in an ErrBadState", interval: time.Hour,
		do: func(ctx context.Context, g *guarded) error {
			NoError(g.T, g.look.LPush(ctx, "{api}:value", "x").Err())
			err := ErrOf(g.l.TryAcquire(ctx, 1, 0))
			if !errors.Is(err, rratelimiter.ErrBadState) {
				return err
			}
			if !strings.Contains(err.Error(), "is a list") {
				return errors.New("it does not name it")
			}
			return nil
		}},
}

// tries does the deeds without a right, and returns what has failed and what Redis
// has denied.
func (g *guarded) tries(without string) (failed map[string]error, denied []string) {
	g.Helper()
	g.without = without
	redistest.Denied(g, g.look) // before
	failed = map[string]error{}
	for _, d := range deeds {
		if d.only != "" && without != "" && d.only != without {
			continue
		}
		g.fresh(d.interval)
		ctx, cancel := context.WithTimeout(g.Context(), Patience)
		if err := d.do(ctx, g); err != nil {
			failed[d.name] = err
		}
		cancel()
	}
	return failed, redistest.Denied(g, g.look)
}

// settles returns when no script has run for some time.
func (g *guarded) settles() {
	g.Helper()
	calls := func() string {
		for line := range strings.Lines(g.look.Info(g.Context(), "commandstats").Val()) {
			if strings.HasPrefix(line, "cmdstat_evalsha:") {
				return line
			}
		}
		return ""
	}
	last, since := calls(), time.Now()
	Until(g.T, func() bool {
		if now := calls(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 300*time.Millisecond
	})
}

// allows gives the user these rights and no others.
func (g *guarded) allows(rights []string) { g.Helper(); redistest.Allow(g, "app", rights, g.look) }

// Without the right to HSET a call fails, and leaves no record.
func TestACallThatIsDeniedLeavesNoRecord(t *testing.T) {
	s := redistest.Start(t)
	rights := rule(t, ruleOfAll)
	rdb := s.Client(t, func(o *redis.Options) { o.Username, o.Password = "app", "secret" })
	g := newGuarded(t, rdb, s.Admin())
	g.allows(rights)
	g.fresh(time.Hour)
	NoError(t, Yes(g.l.TryAcquire(t.Context(), 2, 0)))
	g.allows(slices.DeleteFunc(rights, func(right string) bool { return right == "+hset" }))
	for range 3 {
		if ok, err := g.l.TryAcquire(t.Context(), 1, 0); ok || err == nil {
			t.Errorf("%v, %v; want an error", ok, err)
		}
	}
	if n := g.look.ZCard(t.Context(), "{"+guardedName+"}:permits").Val(); n != 1 {
		t.Errorf("%d records, want the one of the first call", n)
	}
}

// With the rights in docs/keys.md everything works, and without any of them what the
// page says fails. Where nothing fails, Redis has denied something all the same.
func TestEachRightOfThePageIsNeeded(t *testing.T) {
	t.Parallel() // most of the time is spent waiting
	s := redistest.Start(t, "--notify-keyspace-events", "KEA")
	rights, deedOf := rule(t, ruleOfAll), redistest.Needs(t, "../../docs/keys.md")
	rdb := s.Client(t, func(o *redis.Options) { o.Username, o.Password = "app", "secret" })
	g := newGuarded(t, rdb, s.Admin())
	g.allows(rights)
	if failed, denied := g.tries(""); len(failed)+len(denied) > 0 {
		t.Fatalf("with all rights these fail: %v; denied are %q", failed, denied)
	}
	for i, right := range rights {
		if i < 2 {
			continue // on, and the password
		}
		g.allows(slices.Delete(slices.Clone(rights), i, i+1))
		failed, denied := g.tries(right)
		deed, found := deedOf[right]
		delete(deedOf, right)
		err := failed[deed]
		switch {
		case len(denied) == 0:
			t.Errorf("%s: nothing is denied without it", right)
		case !found:
			t.Errorf("%s: the page does not say what needs it; these fail: %v", right, failed)
		case deed == "nothing" && len(failed) > 0:
			t.Errorf("%s: these fail without it: %v", right, failed)
		case deed != "nothing" && err == nil:
			t.Errorf("%s: %s does not fail without it; these do: %v", right, deed, failed)
		case redis.HasErrorPrefix(err, "NOPERM"):
			WantText(t, err, "NOPERM", guardedName)
		}
	}
	if len(deedOf) > 0 {
		t.Errorf("the page names rights that the rule does not have: %v", deedOf)
	}
}
