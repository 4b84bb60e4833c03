package main

import (
	"sync"
	"time"

	"github.com/redisson-go/rratelimiter"
)

// handlesPart shows that a RateLimiter may be made for each request.
var handlesPart = faultPart("handles",
	"a RateLimiter for each request beside one that is kept", (*faulty).handles)

// oncePart shows that many releases cost Redis few calls.
var oncePart = faultPart("once",
	"a thousand releases at once", (*faulty).atOnce)

// outstanding returns how many records a limiter of these parts has: enough that reading
// all of them for one call would show.
func (f *faulty) outstanding() int { return amount(f.scope, 30_000, 3_000) }

// handles lets one caller use a RateLimiter for each request, and one that is
// kept. Both should be as fast: a RateLimiter is said to be a cheap handle. For
// a PerClient limiter a new one might have to find out its type each time.
func (f *faulty) handles() {
	f.title("one caller, %d records are out: calls a second", f.outstanding())
	for _, typ := range []rratelimiter.RateType{rratelimiter.Overall, rratelimiter.PerClient} {
		for _, kept := range []bool{true, false} {
			c := f.connect(f.server.Addr)
			l, id := f.limiter(c, typ), ""
			if typ == rratelimiter.PerClient {
				id = c.ID()
			}
			f.fill(l, id, f.outstanding())
			at := func() *rratelimiter.RateLimiter {
				if kept {
					return l
				}
				return c.RateLimiter(l.Name())
			}
			what := map[bool]string{true: ", kept", false: ", one for each request"}[kept]
			acquires := f.perSecond(func() error { return second(at().TryAcquire(f.ctx, 1, 0)) })
			releases := f.perSecond(func() error { return at().Release(f.ctx, 1) })
			f.row(typ.String()+what, "%6d acquires, then %6d releases; %d fields in the hash",
				acquires, releases, f.admin.HLen(f.ctx, keysOf(l.Name(), "").hash).Val())
		}
	}
}

// perSecond returns how often call can be done in a second, one call after
// another. Two seconds even out what else the machine does.
func (f *faulty) perSecond(call func() error) int {
	lasts := amount(f.scope, 2*time.Second, 100*time.Millisecond)
	calls := 0
	for end := time.Now().Add(lasts); time.Now().Before(end); calls++ {
		f.must(call())
	}
	return int(float64(calls) / lasts.Seconds())
}

// atOnce measures releases that come at once. They are merged like acquires; a
// script call for each would show here.
func (f *faulty) atOnce() {
	const releases = 1000 // ten times the pool of most clients
	f.title("%d releases at once, %d records are out", releases, f.outstanding())
	l := f.limiter(f.connect(f.server.Addr), rratelimiter.Overall)
	f.fill(l, "", f.outstanding())
	before := f.usage()
	start := time.Now()
	var all sync.WaitGroup
	for range releases {
		all.Go(func() { _ = l.Release(f.ctx, 1) }) // "given back" shows whether they worked
	}
	all.Wait()
	took := time.Since(start)
	scripts := f.usage().since(before).scripts()
	left, err := l.AvailablePermits(f.ctx)
	f.must(err)
	f.row("script calls", "%.0f", scripts.calls)
	f.row("script time", "%v", scripts.took())
	f.row("until all were answered", "%v", took.Round(100*time.Microsecond))
	f.row("given back", "%d", left-int64(plenty-f.outstanding()))
}
