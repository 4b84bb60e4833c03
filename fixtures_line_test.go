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

// sendsOnce makes go-redis send nothing again, so that a lost reply is an error.
func sendsOnce(o *redis.Options) { o.MaxRetries = -1 }

// rough is a line, and its limiter with a resolution.
func rough(t *testing.T, rate int64, mods ...func(*redis.Options)) (*line, *limiter) {
	n := newLine(t, rate, time.Hour, mods...)
	m := n.l.coarse(10 * time.Millisecond)
	m.takes(1)
	m.gives(1)
	return n, m
}

func isScript(args []string) bool { return strings.EqualFold(args[0], "evalsha") }

// scriptsRun returns how many scripts the server has run by their hash.
func (b *bench) scriptsRun() (calls int64) {
	b.Helper()
	stats, err := b.look.Info(context.Background(), "commandstats").Result()
	b.want(err)
	for stat := range strings.FieldsSeq(stats) {
		if _, err := fmt.Sscanf(stat, "cmdstat_evalsha:calls=%d,", &calls); err == nil {
			return calls
		}
	}
	b.Fatal("the server has run no script")
	return 0
}

// A firstCopy is the first copy of a request. The proxy holds it on its way to
// the server.
type firstCopy struct {
	n    *line
	told chan error // what the caller is told
	pass func()
	ran  int64 // scripts that had been run when it was held
}

// holds starts ask and returns when the proxy holds its script call.
func (n *line) holds(ask func() error) *firstCopy {
	n.Helper()
	return n.holdsNext(isScript, ask)
}

// holdsNext is holds for a request that match accepts.
func (n *line) holdsNext(match func(args []string) bool, ask func() error) *firstCopy {
	n.Helper()
	c := &firstCopy{n: n, told: make(chan error, 1), ran: n.scriptsRun()}
	held := n.proxy.Held()
	c.pass = n.proxy.HoldNext(1, match)
	go func() { c.told <- ask() }()
	until(n.T, func() bool { return n.proxy.Held() == held+1 })
	return c
}

// overtaken cuts the connection. go-redis sends a second copy then, unless it
// sends everything once. overtaken returns what the caller is told.
func (c *firstCopy) overtaken() error {
	c.n.proxy.Cut()
	return <-c.told
}

// followed waits until the server has run a script behind the first copy: the
// second copy, or the withdrawal.
func (c *firstCopy) followed() {
	c.n.Helper()
	until(c.n.T, func() bool { return c.n.scriptsRun() > c.ran })
}

// arrives lets the first copy pass, and returns when the server has run it.
func (c *firstCopy) arrives() {
	c.n.Helper()
	before := c.n.scriptsRun()
	c.pass()
	until(c.n.T, func() bool { return c.n.scriptsRun() > before })
}

// takesAndGives is a Client that is used once.
func (n *line) takesAndGives() {
	n.Helper()
	l := n.l.by(n.newClient())
	l.takes(1)
	l.gives(1)
}

// somebodyElse is a Client that does not go through the proxy.
func (n *line) somebodyElse() *limiter {
	c := rratelimiter.New(n.look, rratelimiter.WithClock(func() time.Time { return time.UnixMilli(n.now) }))
	n.Cleanup(func() { _ = c.Close() })
	return n.l.by(c)
}

// loses takes permits, and the reply is lost: the caller gets an error.
func (n *line) loses(permits int64) {
	n.Helper()
	n.proxy.SwallowReply(1)
	if ok, err := n.l.TryAcquire(n.Context(), permits, 0); ok || !errors.Is(err, rratelimiter.ErrNoAnswer) {
		n.Fatalf("%v, %v; want ErrNoAnswer", ok, err)
	}
}

// out returns the permits in the records of a key.
func (n *line) out(key string) int64 {
	n.Helper()
	return sum(n.l.records(key))
}

// untilOut waits until so many permits are in the records that all share:
// withdrawals go on in the background.
func (n *line) untilOut(permits int64) {
	n.Helper()
	until(n.T, func() bool { return n.out(n.l.permits()) == permits })
}

// setsAsJava is setRate of a Redisson with an ID of its own. It clears its own
// pair of keys, or the one that all share.
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
	n.want(errOf(pipe.Exec(n.Context())))
}

// javaTakes adds records of Java, each of the same permits and time.
func (n *line) javaTakes(grants int, permits byte, at int64) {
	n.Helper()
	pipe := n.look.TxPipeline()
	for i := range grants {
		member := fmt.Sprintf("\x10%016d%c\x00\x00\x00", i, permits)
		pipe.ZAdd(n.Context(), n.l.permits(), redis.Z{Score: float64(at), Member: member})
	}
	pipe.DecrBy(n.Context(), n.l.value(), int64(grants)*int64(permits))
	n.want(errOf(pipe.Exec(n.Context())))
}
