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

// records are how many a limiter has whose requests are sent again.
const records = 1_000_000

// again measures what Redis does for requests whose replies were lost, where a
// limiter has many records, all younger than the request.
func (b *bench) again() {
	b.title("one request, and then %d records of others: script calls, and the us of each in Redis", records)
	patient := func(o *redis.Options) { o.ReadTimeout = time.Minute }
	c := b.client(b.proxy.Addr, patient)
	for _, tc := range []struct {
		what  string
		fault func(l *rratelimiter.RateLimiter)
	}{
		{"sent again", b.resent},
		{"withdrawn (12 s)", b.withdrawn},
		{"given back", b.givenBack},
		{"a release, sent again", b.releasedAgain},
	} {
		l := b.limiter(c, rratelimiter.Overall)
		tc.fault(l) // which begins to watch when the records are there
		took := b.slowest(l.Name())
		b.row(tc.what, "%2d calls: %v", len(took), took[:min(len(took), 8)])
		_, err := l.Delete(b.ctx)
		b.must(err)
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

// resent holds a request, lets others take theirs, and cuts its connection: it is
// sent again, and then the first copy arrives.
func (b *bench) resent(l *rratelimiter.RateLimiter) {
	b.held(l, func() error { return second(l.TryAcquire(b.ctx, 1, 0)) })
}

func (b *bench) releasedAgain(l *rratelimiter.RateLimiter) {
	b.must(second(l.TryAcquire(b.ctx, 1, 0)))
	b.held(l, func() error { return l.Release(b.ctx, 1) })
}

func (b *bench) held(l *rratelimiter.RateLimiter, call func() error) {
	held := b.proxy.Held()
	late := b.proxy.HoldNext(1, isScript)
	done := make(chan error, 1)
	go func() { done <- call() }()
	for b.proxy.Held() == held {
		time.Sleep(time.Millisecond)
	}
	b.fill(l, "", records)
	b.watch(0)
	b.proxy.Cut()
	b.must(<-done)
	late()
	time.Sleep(500 * time.Millisecond)
}

// withdrawn lets the reply be lost to a caller who has left.
func (b *bench) withdrawn(l *rratelimiter.RateLimiter) {
	ctx, leave := context.WithTimeout(b.ctx, 50*time.Millisecond)
	defer leave()
	held := b.proxy.Held()
	late := b.proxy.HoldNext(1, isScript)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = l.TryAcquire(ctx, 1, 0) // it ends with ctx
	}()
	for b.proxy.Held() == held {
		time.Sleep(time.Millisecond)
	}
	<-done
	b.proxy.Cut()
	late()
	b.fill(l, "", records)
	b.watch(0)
	time.Sleep(12 * time.Second)
}

// givenBack lets a caller leave before its reply arrives, which says yes.
func (b *bench) givenBack(l *rratelimiter.RateLimiter) {
	ctx, leave := context.WithTimeout(b.ctx, 50*time.Millisecond)
	defer leave()
	b.proxy.Delay(6 * time.Second)
	_, _ = l.TryAcquire(ctx, 1, 0) // it ends with ctx
	b.proxy.Delay(0)
	b.fill(l, "", records)
	b.watch(0)
	time.Sleep(7 * time.Second)
}

func second[T any](_ T, err error) error { return err }
