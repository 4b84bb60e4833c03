package main

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// killed measures what is felt of one CLIENT KILL.
func (b *bench) killed() {
	const clients = 60
	b.title("%d clients that acquire, and one CLIENT KILL TYPE normal", clients)
	b.storm(clients, b.server.Addr, nil, func(watch *redis.Conn) {
		b.must(watch.Do(b.ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err())
	})
}

// late measures what is felt of replies that come later than clients wait.
func (b *bench) late() {
	const clients, lasts = 20, 300 * time.Millisecond
	b.title("%d clients by a proxy that wait 100 ms for a reply, and %v of replies that are as late", clients, lasts)
	soon := func(o *redis.Options) { o.ReadTimeout = 100 * time.Millisecond }
	b.storm(clients, b.proxy.Addr, soon, func(*redis.Conn) {
		b.proxy.Delay(lasts)
		time.Sleep(lasts)
		b.proxy.Delay(0)
	})
}

// storm lets clients acquire as fast as they can, makes a fault, and looks for how
// long it is felt.
func (b *bench) storm(clients int, addr string, mod func(*redis.Options), fault func(watch *redis.Conn)) {
	const before, after, step = 3 * time.Second, 10 * time.Second, 100 * time.Millisecond
	mods := []func(*redis.Options){func(o *redis.Options) { o.PoolSize = 4 }}
	if mod != nil {
		mods = append(mods, mod)
	}
	name := b.limiter(b.client(b.server.Addr), rratelimiter.Overall).Name()
	var granted, failed atomic.Int64
	var all sync.WaitGroup
	stop := make(chan struct{})
	for range clients {
		l := b.client(addr, mods...).RateLimiter(name)
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if ok, err := l.TryAcquire(b.ctx, 1, 0); err != nil {
					failed.Add(1)
				} else if ok {
					granted.Add(1)
				}
			}
		})
	}
	watch := b.admin.Conn()
	defer func() { _ = watch.Close() }()
	look := func(lasts time.Duration) (worst time.Duration, steps []int64) {
		last, due := granted.Load(), time.Now().Add(step)
		for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
			start := time.Now()
			b.must(watch.Ping(b.ctx).Err())
			worst = max(worst, time.Since(start))
			for ; !time.Now().Before(due); due = due.Add(step) {
				now := granted.Load()
				steps, last = append(steps, now-last), now
			}
		}
		return worst, steps
	}
	time.Sleep(time.Second) // until they are all at work
	calm, usual := look(before)
	errors := failed.Load()
	_, busy := b.scripts()
	b.watch(5000)
	start := time.Now()
	fault(watch)
	worst, steps := look(after)
	_, busyAfter := b.scripts()
	elapsed := time.Since(start)
	close(stop)
	all.Wait()
	perStep := sum(usual) / int64(len(usual))
	b.row("acquires a second before", "%d", perStep*int64(time.Second/step))
	b.row("worst PING before", "%v", calm.Round(100*time.Microsecond))
	b.row("worst PING in the 10 s after", "%v", worst.Round(100*time.Microsecond))
	first, last := low(steps, perStep*8/10)
	itself := elapsed - after // how long the fault itself took
	b.row("first back at 80 % after", "%v", (itself + time.Duration(first)*step).Round(step))
	b.row("last below 80 % until", "%v", (itself + time.Duration(last)*step).Round(step))
	b.row("acquires a second in the 10 s after", "%d", sum(steps)/int64(after/time.Second))
	b.row("script time in the 10 s after", "%v", (busyAfter - busy).Round(10*time.Millisecond))
	slow := b.slowest(name)
	b.row("scripts of 5 ms and more", "%d, in us %v", len(slow), slow[:min(len(slow), 5)])
	b.row("errors that callers got", "%d", failed.Load()-errors)
}

// low returns after how many steps there is half a second for the first time that
// has as much as it should, and when the last half second ends that has not. One
// step alone may be one of many callers who were answered at once.
func low(steps []int64, each int64) (first, last int) {
	const window = 5
	first = len(steps)
	for i := 0; i+window <= len(steps); i++ {
		if sum(steps[i:i+window]) < window*each {
			last = i + window
		} else {
			first = min(first, i)
		}
	}
	return first, last
}

func sum(all []int64) (n int64) {
	for _, one := range all {
		n += one
	}
	return n
}
