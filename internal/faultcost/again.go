package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// records are how many a limiter has whose requests are sent again, and requesters
// how many Clients have sent one each: the first finds Redis unprepared.
const (
	records    = 1_000_000
	requesters = 9
)

// again measures what Redis does for requests whose replies were lost, where a
// limiter has many records, all younger than the requests.
func (b *bench) again() {
	b.title("%d requests, and then %d records of others: script calls, and the us of each in Redis", requesters, records)
	for _, tc := range []struct {
		what  string
		fault func(ls []*rratelimiter.RateLimiter)
	}{
		{"sent again", b.resent},
		{"a release, sent again", b.releasedAgain},
		{"withdrawn", b.withdrawn},
	} {
		patient := func(o *redis.Options) { o.ReadTimeout = time.Minute }
		first := b.limiter(b.client(b.proxy.Addr, patient), rratelimiter.Overall)
		ls := []*rratelimiter.RateLimiter{first}
		for len(ls) < requesters {
			l := b.client(b.proxy.Addr, patient).RateLimiter(first.Name())
			b.must(second(l.TryAcquire(b.ctx, 1, 0)))
			ls = append(ls, l)
		}
		tc.fault(ls) // which begins to watch when the records are there
		took := b.slowest(first.Name())
		if len(took) == 0 {
			b.Fatalf("%s: no script was called", tc.what)
		}
		b.row(tc.what, "%2d calls, median %d: %v", len(took), took[len(took)/2], took)
		b.must(second(first.Delete(b.ctx)))
	}
}

// watch begins to note the commands that take at least so many us.
func (b *bench) watch(us int) {
	b.must(b.admin.ConfigSet(b.ctx, "slowlog-max-len", "1000000").Err())
	b.must(b.admin.ConfigSet(b.ctx, "slowlog-log-slower-than", strconv.Itoa(us)).Err())
	b.must(b.admin.Do(b.ctx, "SLOWLOG", "RESET").Err())
}

// slowest lists the us that the scripts of this limiter took since watch, the
// slowest first. The commands inside of scripts are in the log as well.
func (b *bench) slowest(name string) (took []int64) {
	logs, err := b.admin.SlowLogGet(b.ctx, -1).Result()
	b.must(err)
	b.must(b.admin.ConfigSet(b.ctx, "slowlog-log-slower-than", "-1").Err())
	for _, log := range logs {
		if strings.HasPrefix(strings.ToLower(log.Args[0]), "eval") && slices.Contains(log.Args, name) { // not of fill
			took = append(took, log.Duration.Microseconds())
		}
	}
	slices.Sort(took)
	slices.Reverse(took)
	return took
}

func isScript(args []string) bool { return strings.EqualFold(args[0], "evalsha") }

// resent holds requests, lets others take theirs, and cuts the connections: they
// are sent again, and then the first copies arrive.
func (b *bench) resent(ls []*rratelimiter.RateLimiter) {
	b.held(ls, func(l *rratelimiter.RateLimiter) error { return second(l.TryAcquire(b.ctx, 1, 0)) })
}

func (b *bench) releasedAgain(ls []*rratelimiter.RateLimiter) {
	for _, l := range ls {
		b.must(second(l.TryAcquire(b.ctx, 1, 0)))
	}
	b.held(ls, func(l *rratelimiter.RateLimiter) error { return l.Release(b.ctx, 1) })
}

func (b *bench) held(ls []*rratelimiter.RateLimiter, call func(l *rratelimiter.RateLimiter) error) {
	held := b.proxy.Held()
	late := b.proxy.HoldNext(len(ls), isScript)
	done := make(chan error, len(ls))
	for _, l := range ls {
		go func() { done <- call(l) }()
	}
	for b.proxy.Held() < held+int64(len(ls)) {
		time.Sleep(time.Millisecond)
	}
	b.fill(ls[0], "", records)
	b.watch(0)
	b.proxy.Cut()
	for range ls {
		b.must(<-done)
	}
	late()
	time.Sleep(500 * time.Millisecond)
}

// withdrawn lets the replies be lost to callers who have left. Redis cannot be
// reached until the records are there.
func (b *bench) withdrawn(ls []*rratelimiter.RateLimiter) {
	ctx, leave := context.WithTimeout(b.ctx, 50*time.Millisecond)
	defer leave()
	swallowed := b.proxy.Swallowed()
	b.proxy.SwallowReply(len(ls))
	for _, l := range ls {
		go func() { _, _ = l.TryAcquire(ctx, 1, 0) }() // it ends with ctx
	}
	for b.proxy.Swallowed() < swallowed+int64(len(ls)) {
		time.Sleep(time.Millisecond)
	}
	b.proxy.Down()
	b.fill(ls[0], "", records)
	b.watch(0)
	b.proxy.Up()
	time.Sleep(10 * time.Second)
}

func second[T any](_ T, err error) error { return err }
