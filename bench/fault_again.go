package main

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// againPart shows what "charged once" costs. Only a request that is sent again
// looks for its own record, and it must find it without reading all others.
var againPart = faultPart("again",
	"work of Redis for requests whose replies were lost, with a million records", (*faulty).again)

// requesters is how many Clients send one request each: the first one finds
// Redis unprepared, so one is not enough.
const requesters = 9

// records returns how many records of others are younger than the requests: as
// many as a large limit may have, so that a search through all of them shows.
func (f *faulty) records() int { return amount(f.scope, 1_000_000, 5_000) }

// again measures requests that are sent again and requests that are withdrawn.
func (f *faulty) again() {
	f.title("%d requests, and then %d records of others: script calls, and the us of each in Redis",
		requesters, f.records())
	for _, tc := range []struct {
		what  string
		fault func(ls []*rratelimiter.RateLimiter)
	}{
		{"sent again", f.resent},
		{"a release, sent again", f.releasedAgain},
		{"withdrawn", f.withdrawn},
	} {
		// A minute: writing the records takes longer than go-redis waits for a reply.
		slow := func(o *redis.Options) { o.ReadTimeout = time.Minute }
		first := f.limiter(f.connect(f.proxy.Addr, slow), rratelimiter.Overall)
		ls := []*rratelimiter.RateLimiter{first}
		for len(ls) < requesters {
			l := f.connect(f.proxy.Addr, slow).RateLimiter(first.Name())
			f.must(second(l.TryAcquire(f.ctx, 1, 0)))
			ls = append(ls, l)
		}
		tc.fault(ls) // it watches the scripts from when the records are there
		took, err := watchedScripts(f.ctx, f.admin, first.Name())
		f.must(err)
		if len(took) == 0 {
			f.Fatalf("%s: no script was called", tc.what)
		}
		us := inMicros(took)
		f.row(tc.what, "%2d calls, median %d: %v", len(us), us[len(us)/2], us)
		f.must(second(first.Delete(f.ctx)))
	}
}

// inMicros returns durations in µs.
func inMicros(took []time.Duration) []int64 {
	us := make([]int64, len(took))
	for i, d := range took {
		us[i] = d.Microseconds()
	}
	return us
}

// isScript reports whether a command is a script call.
func isScript(args []string) bool { return strings.EqualFold(args[0], "evalsha") }

// resent lets acquires be sent again.
func (f *faulty) resent(ls []*rratelimiter.RateLimiter) {
	f.held(ls, func(l *rratelimiter.RateLimiter) error { return second(l.TryAcquire(f.ctx, 1, 0)) })
}

// releasedAgain lets releases be sent again.
func (f *faulty) releasedAgain(ls []*rratelimiter.RateLimiter) {
	for _, l := range ls {
		f.must(second(l.TryAcquire(f.ctx, 1, 0)))
	}
	f.held(ls, func(l *rratelimiter.RateLimiter) error { return l.Release(f.ctx, 1) })
}

// held holds requests in the proxy, lets others take their permits, and cuts the
// connections. The requests are sent again, and then the first copies arrive.
func (f *faulty) held(ls []*rratelimiter.RateLimiter, call func(l *rratelimiter.RateLimiter) error) {
	held := f.proxy.Held()
	late := f.proxy.HoldNext(len(ls), isScript)
	done := make(chan error, len(ls))
	for _, l := range ls {
		go func() { done <- call(l) }()
	}
	// All requests must be on their way before the records are written: only then
	// are the records younger.
	for f.proxy.Held() < held+int64(len(ls)) {
		time.Sleep(time.Millisecond)
	}
	f.fill(ls[0], "", f.records())
	f.must(watchScripts(f.ctx, f.admin, 0))
	f.proxy.Cut()
	for range ls {
		f.must(<-done)
	}
	late()
	time.Sleep(500 * time.Millisecond) // until Redis has judged the first copies
}

// withdrawn lets the replies be lost to callers that have left. Redis cannot be
// reached until the records are there.
func (f *faulty) withdrawn(ls []*rratelimiter.RateLimiter) {
	ctx, leave := context.WithTimeout(f.ctx, 50*time.Millisecond)
	defer leave()
	swallowed := f.proxy.Swallowed()
	f.proxy.SwallowReply(len(ls))
	for _, l := range ls {
		go func() { _, _ = l.TryAcquire(ctx, 1, 0) }() // it ends with ctx
	}
	for f.proxy.Swallowed() < swallowed+int64(len(ls)) {
		time.Sleep(time.Millisecond)
	}
	f.proxy.Down()
	f.fill(ls[0], "", f.records())
	f.must(watchScripts(f.ctx, f.admin, 0))
	f.proxy.Up()
	time.Sleep(10 * time.Second) // twice as long as a withdrawal may hang
}
