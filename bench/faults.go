package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// faultPart returns a part that measures what a fault costs and prints it. It
// says nothing of right or wrong: the tests of the library do. What callers get
// is noisy on a small machine, where they share the processors with Redis. What
// Redis says of its own time is less so.
func faultPart(name, about string, measure func(*faulty)) *part {
	return &part{name: name, about: about, set: setFaults,
		measure: func(ctx context.Context, s *scope) (finding, error) {
			logging.Disable() // go-redis logs broken connections, and here they are intended
			server := redistest.Start(s)
			measure(&faulty{s, ctx, server, redistest.StartProxy(s, server.Addr), server.Admin()})
			return finding{}, nil
		}}
}

// A faulty is what a fault part works with. An error ends the part (must).
type faulty struct {
	*scope
	ctx    context.Context
	server *redistest.Server
	proxy  *redistest.Proxy // breaks connections
	admin  *redis.Client    // for what is not measured
}

// must ends the part on an error, and when the context has ended.
func (f *faulty) must(err error) {
	if err == nil {
		err = f.ctx.Err()
	}
	if err != nil {
		f.Fatalf("%w", err)
	}
}

// second returns the error of a call whose value is not wanted.
func second[T any](_ T, err error) error { return err }

// connect returns a Client with a pool of its own, connected to addr.
func (f *faulty) connect(addr string, mods ...func(*redis.Options)) *rratelimiter.Client {
	o := &redis.Options{Addr: addr}
	for _, mod := range mods {
		mod(o)
	}
	rdb := redis.NewClient(o)
	f.Cleanup(func() { _ = rdb.Close() }) // broken connections are no news
	return f.client(rdb)
}

// limiter returns a new limiter of c, whose permits come back after an hour.
func (f *faulty) limiter(c *rratelimiter.Client, typ rratelimiter.RateType) *rratelimiter.RateLimiter {
	l := c.RateLimiter(redistest.Name(f))
	f.must(l.SetRate(f.ctx, typ, plenty, time.Hour))
	f.must(take(f.ctx, l, 1)) // from here on the server knows the scripts
	f.must(l.Release(f.ctx, 1))
	return l
}

// fill takes permits as another client would, with a record for each, at the
// time of now. client is the ID of the Client for a PerClient limiter, or empty.
func (f *faulty) fill(l *rratelimiter.RateLimiter, client string, records int) {
	k := keysOf(l.Name(), client)
	f.must(writeRecords(f.ctx, f.admin, k.permits, records, time.Now))
	f.must(f.admin.SetNX(f.ctx, k.value, plenty, 0).Err())
	f.must(f.admin.DecrBy(f.ctx, k.value, int64(records)).Err())
}

// usage returns what the server has done up to now.
func (f *faulty) usage() usage {
	u, err := readUsage(f.ctx, f.admin)
	f.must(err)
	return u
}

// took returns the time of the scripts.
func (c command) took() time.Duration { return time.Duration(c.usec * float64(time.Microsecond)) }

// title prints what is measured.
func (f *faulty) title(format string, args ...any) { fmt.Fprintf(f.out, "\n"+format+"\n", args...) }

// row prints one figure.
func (f *faulty) row(what, format string, args ...any) {
	fmt.Fprintf(f.out, "  %-34s %s\n", what, fmt.Sprintf(format, args...))
}
