package main

import (
	"sync"
	"time"

	"github.com/redisson-go/rratelimiter"
)

// out is how many records a limiter has whose RateLimiters are compared.
const out = 30_000

// handles compares a RateLimiter for each request with one that is kept, asked by
// one caller.
func (b *bench) handles() {
	b.title("one caller, %d records are out: calls a second", out)
	for _, typ := range []rratelimiter.RateType{rratelimiter.Overall, rratelimiter.PerClient} {
		for _, kept := range []bool{true, false} {
			c := b.client(b.server.Addr)
			l, end := b.limiter(c, typ), ""
			if typ == rratelimiter.PerClient {
				end = ":" + c.ID()
			}
			b.fill(l, end, out)
			at := func() *rratelimiter.RateLimiter {
				if kept {
					return l
				}
				return c.RateLimiter(l.Name())
			}
			what := map[bool]string{true: ", kept", false: ", one for each request"}[kept]
			acquires := b.perSecond(func() error { return second(at().TryAcquire(b.ctx, 1, 0)) })
			releases := b.perSecond(func() error { return at().Release(b.ctx, 1) })
			b.row(typ.String()+what, "%6d acquires, then %6d releases; %d fields in the hash",
				acquires, releases, b.admin.HLen(b.ctx, l.Name()).Val())
		}
	}
}

// perSecond is how often call can be done, one after another.
func (b *bench) perSecond(call func() error) (calls int) {
	const lasts = 2 * time.Second
	for end := time.Now().Add(lasts); time.Now().Before(end); calls++ {
		b.must(call())
	}
	return calls / int(lasts/time.Second)
}

// atOnce measures many releases that come at once.
func (b *bench) atOnce() {
	const releases = 1000
	b.title("%d releases at once, %d records are out", releases, out)
	l := b.limiter(b.client(b.server.Addr), rratelimiter.Overall)
	b.fill(l, "", out)
	calls, busy := b.scripts()
	start := time.Now()
	var all sync.WaitGroup
	for range releases {
		all.Go(func() { _ = l.Release(b.ctx, 1) }) // that it worked shows below
	}
	all.Wait()
	took := time.Since(start)
	callsAfter, busyAfter := b.scripts()
	left, err := l.AvailablePermits(b.ctx)
	b.must(err)
	b.row("script calls", "%d", callsAfter-calls)
	b.row("script time", "%v", busyAfter-busy)
	b.row("until all were answered", "%v", took.Round(100*time.Microsecond))
	b.row("given back", "%d", left-(rate-out))
}
