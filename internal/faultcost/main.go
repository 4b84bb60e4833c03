// Command faultcost prints what faults cost: what Redis does for a request whose
// reply was lost, how long a broken network is felt, what a RateLimiter for each
// request costs beside one that is kept, and what many limiters leave behind. It says nothing of right or wrong;
// the tests do.
//
//	go run ./internal/faultcost [again] [killed] [late] [handles] [once] [many]
//
// measures everything, or the parts that are named.
// It needs redis-server and takes about five minutes. What callers get is noisy on
// a small machine, where callers and Redis share the processors; what Redis says
// of its own time is less so.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "faultcost: %v\n", err)
		os.Exit(1)
	}
}

// parts are what is measured, each on a server of its own.
var parts = []struct {
	name    string
	measure func(*bench)
}{
	{"again", (*bench).again},
	{"killed", (*bench).killed},
	{"late", (*bench).late},
	{"handles", (*bench).handles},
	{"once", (*bench).atOnce},
	{"many", (*bench).many},
}

// run measures the parts that are wanted, all if none is named.
func run(ctx context.Context, out io.Writer, wanted []string) error {
	for _, part := range parts {
		if len(wanted) > 0 && !slices.Contains(wanted, part.name) {
			continue
		}
		if err := alone(ctx, out, part.measure); err != nil {
			return err
		}
	}
	return nil
}

// alone runs one part; nothing of it takes time from the next one.
func alone(ctx context.Context, out io.Writer, part func(*bench)) (err error) {
	logging.Disable() // that connections break is intended
	var s redistest.Scope
	defer func() { s.End(recover(), &err) }()
	server := redistest.Start(&s)
	part(&bench{&s, ctx, out, server, redistest.StartProxy(&s, server.Addr), server.Admin()})
	return nil
}

// A bench is what a part works on.
type bench struct {
	*redistest.Scope
	ctx    context.Context
	out    io.Writer
	server *redistest.Server
	proxy  *redistest.Proxy
	admin  *redis.Client
}

// must ends the program on an error.
func (b *bench) must(err error) {
	if err == nil {
		err = b.ctx.Err()
	}
	if err != nil {
		b.Fatalf("%w", err)
	}
}

// client returns a Client that reaches the server at addr.
func (b *bench) client(addr string, mods ...func(*redis.Options)) *rratelimiter.Client {
	o := &redis.Options{Addr: addr}
	for _, mod := range mods {
		mod(o)
	}
	rdb := redis.NewClient(o)
	c := rratelimiter.New(rdb)
	b.Cleanup(func() {
		_ = c.Close()
		_ = rdb.Close()
	})
	return c
}

// limiter returns a new limiter of c, whose permits come back after an hour.
func (b *bench) limiter(c *rratelimiter.Client, typ rratelimiter.RateType) *rratelimiter.RateLimiter {
	l := c.RateLimiter(redistest.Name(b))
	b.must(l.SetRate(b.ctx, typ, rate, time.Hour))
	ok, err := l.TryAcquire(b.ctx, 1, 0) // the scripts are known to the server from here on
	if b.must(err); !ok {
		b.Fatalf("%s: refused", l.Name())
	}
	b.must(l.Release(b.ctx, 1))
	return l
}

// rate is more than anybody takes here.
const rate = 1_000_000_000

// fillLua writes records of one permit each, as Redisson does, at the time of now.
// KEYS: value, permits. ARGV: the number of the first one, how many, the rate.
const fillLua = `
local t = redis.call('TIME')
local now = string.format('%d', t[1] * 1000 + math.floor(t[2] / 1000))
for i = ARGV[1], ARGV[1] + ARGV[2] - 1 do
  redis.call('ZADD', KEYS[2], now, '\16' .. string.format('%016d', i) .. '\1\0\0\0')
end
redis.call('SET', KEYS[1], ARGV[3], 'NX')
redis.call('DECRBY', KEYS[1], ARGV[2])
return 0`

// fill lets somebody else take records from the limiter, in the keys with this
// end: "" or, for a PerClient limiter, that of its client.
func (b *bench) fill(l *rratelimiter.RateLimiter, end string, records int) {
	const chunk = 10_000
	keys := []string{"{" + l.Name() + "}:value" + end, "{" + l.Name() + "}:permits" + end}
	for i := 0; i < records; i += chunk {
		b.must(b.admin.Do(b.ctx, "EVAL", fillLua, 2, keys[0], keys[1], i, min(chunk, records-i), rate).Err())
	}
}

// scripts is how many scripts the server has run by their hash, and the time that
// they took.
func (b *bench) scripts() (calls int64, took time.Duration) {
	stat := b.admin.InfoMap(b.ctx, "commandstats").Val()["Commandstats"]["cmdstat_evalsha"]
	var us int64
	_, _ = fmt.Sscanf(stat, "calls=%d,usec=%d,", &calls, &us) // none have run: zero
	return calls, time.Duration(us) * time.Microsecond
}

func (b *bench) title(format string, args ...any) { fmt.Fprintf(b.out, "\n"+format+"\n", args...) }

func (b *bench) row(what, format string, args ...any) {
	fmt.Fprintf(b.out, "  %-34s %s\n", what, fmt.Sprintf(format, args...))
}
