package main

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// killedPart shows whether a restart of a proxy or of Redis becomes a storm: 60
// clients that all send again at once.
var killedPart = faultPart("killed",
	"60 clients that acquire, and one CLIENT KILL of all connections", (*faulty).killed)

// latePart shows whether a Redis that is slow for a moment stays slow: clients
// that give up and send again add work just when there is too much.
var latePart = faultPart("late",
	"20 clients that acquire, and replies that come later than clients wait", (*faulty).late)

// A storm is clients that acquire as fast as they can while a fault happens.
type storm struct {
	*faulty
	name            string       // of the limiter
	granted, failed atomic.Int64 // acquires
	watch           *redis.Conn  // spared by CLIENT KILL; sends a PING every few ms
}

// killed measures what clients feel of one CLIENT KILL: all connections break at
// once, and every request under way is sent again.
func (f *faulty) killed() {
	const clients = 60
	f.title("%d clients that acquire, and one CLIENT KILL TYPE normal", clients)
	f.storm(clients, f.server.Addr, 0, func(watch *redis.Conn) {
		f.must(watch.Do(f.ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err())
	})
}

// late measures what clients feel of replies that come later than they wait for.
// They give up connections that still work, and open new ones.
func (f *faulty) late() {
	const clients, wait, lasts = 20, 100 * time.Millisecond, 300 * time.Millisecond
	f.title("%d clients by a proxy that wait %v for a reply, and %v of replies that are as late",
		clients, wait, lasts)
	f.storm(clients, f.proxy.Addr, wait, func(*redis.Conn) {
		f.proxy.Delay(lasts)
		time.Sleep(lasts)
		f.proxy.Delay(0)
	})
}

// storm lets clients acquire through addr, makes a fault, and prints for how
// long it is felt. wait is how long a client waits for a reply, 0 for the
// default.
func (f *faulty) storm(clients int, addr string, wait time.Duration, fault func(watch *redis.Conn)) {
	before := amount(f.scope, 3*time.Second, 600*time.Millisecond)
	after := amount(f.scope, 10*time.Second, 800*time.Millisecond) // the worst fault is over in 5 s
	s := &storm{faulty: f, watch: f.admin.Conn()}
	s.name = f.limiter(f.connect(f.server.Addr), rratelimiter.Overall).Name()
	defer func() { _ = s.watch.Close() }()
	var all sync.WaitGroup
	stop := make(chan struct{})
	for range clients {
		// 4 connections: 60 default pools would be more than the machine can serve.
		c := f.connect(addr, func(o *redis.Options) { o.PoolSize, o.ReadTimeout = 4, wait })
		all.Go(func() { s.acquire(c.RateLimiter(s.name), stop) })
	}
	time.Sleep(amount(f.scope, time.Second, 100*time.Millisecond)) // until all are at work
	calm, usual := s.look(before)
	failed, used := s.failed.Load(), f.usage()
	f.must(watchScripts(f.ctx, f.admin, slowScript))
	start := time.Now()
	fault(s.watch)
	worst, steps := s.look(after)
	scripts := f.usage().since(used).scripts()
	itself := time.Since(start) - after // how long the fault itself took
	close(stop)
	all.Wait()
	// 80 %: callers differ by more than a tenth from one half second to the next.
	each := sum(usual...) / int64(len(usual))
	f.row("acquires a second before", "%d", each*int64(time.Second/step))
	f.row("worst PING before", "%v", calm.Round(100*time.Microsecond))
	f.row("worst PING in the "+seconds(after)+" after", "%v", worst.Round(100*time.Microsecond))
	first, last := low(steps, each*8/10)
	f.row("first back at 80 % after", "%v", (itself + time.Duration(first)*step).Round(step))
	f.row("last below 80 % until", "%v", (itself + time.Duration(last)*step).Round(step))
	f.row("acquires a second in the "+seconds(after)+" after", "%.0f",
		float64(sum(steps...))/after.Seconds())
	f.row("script time in the "+seconds(after)+" after", "%v", scripts.took().Round(10*time.Millisecond))
	slow, err := watchedScripts(f.ctx, f.admin, s.name)
	f.must(err)
	us := inMicros(slow)
	f.row("scripts of 5 ms and more", "%d, in us %v", len(us), us[:min(len(us), 5)])
	f.row("errors that callers got", "%d", s.failed.Load()-failed)
}

// What counts as felt.
const (
	// step is the resolution of what is felt: in 100 ms a client makes enough
	// acquires that their number means something.
	step = 100 * time.Millisecond

	// slowScript is a hundred times what a script takes.
	slowScript = 5 * time.Millisecond
)

// acquire acquires until stop is closed.
func (s *storm) acquire(l *rratelimiter.RateLimiter, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		if ok, err := l.TryAcquire(s.ctx, 1, 0); err != nil {
			s.failed.Add(1)
		} else if ok {
			s.granted.Add(1)
		}
	}
}

// look watches for a while. It returns the longest PING, which shows how long
// Redis keeps others waiting, and the acquires in each step.
func (s *storm) look(lasts time.Duration) (worst time.Duration, steps []int64) {
	last, due := s.granted.Load(), time.Now().Add(step)
	for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		start := time.Now()
		s.must(s.watch.Ping(s.ctx).Err())
		worst = max(worst, time.Since(start))
		for ; !time.Now().Before(due); due = due.Add(step) {
			now := s.granted.Load()
			steps, last = append(steps, now-last), now
		}
	}
	return worst, steps
}

// low returns after how many steps the first half second begins that has as many
// acquires as it should, and when the last half second ends that has not. One
// step alone may show many callers that were answered at once.
func low(steps []int64, each int64) (first, last int) {
	const window = 5
	first = len(steps)
	for i := 0; i+window <= len(steps); i++ {
		if sum(steps[i:i+window]...) < window*each {
			last = i + window
		} else {
			first = min(first, i)
		}
	}
	return first, last
}

// seconds returns "10 s".
func seconds(d time.Duration) string { return figure(d.Seconds()) + " s" }
