package rratelimiter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A line is a client that reaches its server through a proxy.
type line struct {
	*bench
	proxy *redistest.Proxy
	l     *limiter
}

func newLine(t *testing.T, rate int64, interval time.Duration, mods ...func(*redis.Options)) *line {
	t.Helper()
	s := redistest.Start(t)
	p := redistest.StartProxy(t, s.Addr)
	opts := &redis.Options{Addr: p.Addr, ReadTimeout: time.Second}
	for _, mod := range mods {
		mod(opts)
	}
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	b := newBench(t, rdb, s.Admin())
	l := b.limiter(overall, rate, interval)
	l.takes(1) // the scripts are known to the server from here on
	l.gives(1)
	return &line{b, p, l}
}

func isScript(args []string) bool { return strings.EqualFold(args[0], "evalsha") }

// scriptsRun is how many scripts the server has run by their hash.
func (n *line) scriptsRun() (calls int64) {
	n.Helper()
	stats, err := n.look.Info(context.Background(), "commandstats").Result()
	n.want(err)
	for stat := range strings.FieldsSeq(stats) {
		if _, err := fmt.Sscanf(stat, "cmdstat_evalsha:calls=%d,", &calls); err == nil {
			return calls
		}
	}
	return 0
}

func (n *line) takesAndGives() {
	n.Helper()
	l := &limiter{n.newClient().RateLimiter(n.l.Name()), n.bench}
	l.takes(1)
	l.gives(1)
}

func (n *line) postman() *postman {
	p := &postman{n: n}
	n.rdb.AddHook(p)
	return p
}

// somebodyElse is a client that does not go through the proxy.
func (n *line) somebodyElse() *limiter {
	c := rratelimiter.New(n.look, rratelimiter.WithClock(func() time.Time { return time.UnixMilli(n.now) }))
	n.Cleanup(func() { _ = c.Close() })
	return &limiter{c.RateLimiter(n.l.Name()), n.bench}
}

// sendsOnce has go-redis send nothing again: a reply that is lost is an error.
func sendsOnce(o *redis.Options) { o.MaxRetries = -1 }

// loses takes permits whose caller gets an error.
func (n *line) loses(permits int64) {
	n.Helper()
	n.proxy.SwallowReply(1)
	if ok, err := n.l.TryAcquire(n.Context(), permits, 0); ok || !errors.Is(err, rratelimiter.ErrNoAnswer) {
		n.Fatalf("%v, %v; want ErrNoAnswer", ok, err)
	}
}

// out are the permits that are out by the records of a key.
func (n *line) out(key string) int64 {
	n.Helper()
	return sum(n.l.records(key))
}

// setsAsJava is setRate of Redisson, with an ID of its own: it clears its own pair, or
// the one that all share.
func (n *line) setsAsJava(typ rratelimiter.RateType, rate int64) {
	n.Helper()
	id := ""
	if typ == perClient {
		id = ":java"
	}
	pipe := n.look.TxPipeline()
	pipe.HSet(n.Context(), n.l.Name(), "rate", rate, "interval", time.Hour.Milliseconds(),
		"type", int(typ), "keepAliveTime", 0)
	pipe.Del(n.Context(), n.l.value()+id, n.l.permits()+id)
	n.want(second(pipe.Exec(n.Context())))
}

// javaTakes is so many acquires by Java, at a time, each of the same permits.
func (n *line) javaTakes(grants int, permits byte, at int64) {
	n.Helper()
	pipe := n.look.TxPipeline()
	for i := range grants {
		member := fmt.Sprintf("\x10%016d%c\x00\x00\x00", i, permits)
		pipe.ZAdd(n.Context(), n.l.permits(), redis.Z{Score: float64(at), Member: member})
	}
	pipe.DecrBy(n.Context(), n.l.value(), int64(grants)*int64(permits))
	n.want(second(pipe.Exec(n.Context())))
}
