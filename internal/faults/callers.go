package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/grants"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// callers are the callers of Go.
type callers struct {
	setup   Setup
	rdbs    []redis.UniversalClient
	clients []*rratelimiter.Client
	name    string
	log     *grants.Log
	stop    chan struct{}
	end     func()       // ends the callers and waits for them
	leases  atomic.Int64 // requests for leases, or settlements of them

	mu      sync.Mutex
	calls   []ended           // guarded by mu, as all below
	last    []time.Time       // when the last grant of each Client was asked for
	granted int               // permits
	errors  map[string]int    // by kind
	texts   map[string]string // the first one of each kind
}

// An ended is a call that has ended: when it had to, and when it did.
type ended struct{ due, at time.Time }

func (r *Round) startCallers() *callers {
	c := &callers{setup: r.setup, name: r.Name, log: r.Log,
		stop: make(chan struct{}), last: make([]time.Time, goClients),
		errors: map[string]int{}, texts: map[string]string{}}
	for range goClients {
		var opts []rratelimiter.Option
		if r.setup.Leased {
			opts = append(opts, rratelimiter.WithLease(rratelimiter.LeaseOptions{Max: time.Second}))
		}
		rdb := r.client()
		rdb.AddHook(redistest.Hook(func(_ context.Context, cmds ...redis.Cmder) error {
			for _, cmd := range cmds {
				if strings.Contains(fmt.Sprint(cmd.Args()...), "GoRLease") { // the mark of leases
					c.leases.Add(1)
				}
			}
			return nil
		}))
		c.rdbs = append(c.rdbs, rdb)
		c.clients = append(c.clients, rratelimiter.New(rdb, opts...))
	}
	var all sync.WaitGroup
	for n := range goCallers {
		all.Go(func() { c.work(r.ctx, n) })
	}
	c.end = sync.OnceFunc(func() {
		close(c.stop)
		all.Wait()
	})
	return c
}

// close closes the Clients of the callers, and their connections.
func (c *callers) close() error {
	var err error
	for i := range c.clients {
		err = errors.Join(err, c.clients[i].Close(), c.rdbs[i].Close())
	}
	return err
}

// work acquires permits in one way after another until it is stopped. Some calls do not
// wait and are repeated soon: the time of their grants is known exactly.
func (c *callers) work(ctx context.Context, n int) {
	const rest = 10 * time.Millisecond
	client := n % goClients
	for i := n; ; i++ {
		select {
		case <-c.stop:
			return
		default:
		}
		l := c.clients[client].RateLimiter(c.name)
		permits := int64(1 + i%3)
		start, due, ok, err := ask(ctx, l, permits, n%4)
		now := time.Now()
		c.note(client, ended{due, now}, start, err)
		if ok {
			c.log.Add(grants.Entry{Who: fmt.Sprintf("Go %d", n), Start: start, End: now, Permits: permits})
			c.grant(client, start, permits)
			if c.setup.Leased {
				wait(ctx, rest)
			}
			continue
		}
		if errors.Is(err, rratelimiter.ErrNotInitialized) {
			again, cancel := context.WithTimeout(ctx, rest*20)
			_, _ = l.TrySetRate(again, rratelimiter.Overall, c.setup.limit().Rate, c.setup.limit().Interval)
			cancel()
		}
		wait(ctx, rest)
	}
}

// ask makes one call. due is when it has to end.
func ask(
	ctx context.Context, l *rratelimiter.RateLimiter, permits int64, way int,
) (start, due time.Time, ok bool, err error) {
	const soon, later = 200 * time.Millisecond, 400 * time.Millisecond
	start = time.Now()
	if way == 0 {
		ok, err = l.TryAcquire(ctx, permits, soon)
		return start, start.Add(soon), ok, err
	}
	bound := soon
	if way == 1 {
		bound = later
	}
	ctx, cancel := context.WithDeadline(ctx, start.Add(bound))
	defer cancel()
	switch way {
	case 1:
		err = l.Acquire(ctx, permits)
		ok = err == nil
	case 2:
		ok, err = l.TryAcquire(ctx, permits, 0)
	default:
		var r rratelimiter.Result
		r, err = l.Allow(ctx, permits)
		ok = r.Allowed
	}
	return start, start.Add(bound), ok, err
}

func (c *callers) note(client int, e ended, start time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, e)
	if err == nil {
		return
	}
	kind := kindOf(err, c.name)
	if c.errors[kind]++; c.texts[kind] == "" {
		c.texts[kind] = fmt.Sprintf("%v (Client %d, after %v)", err, client, e.at.Sub(start))
	}
}

func (c *callers) grant(client int, start time.Time, permits int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last[client] = start
	c.granted += int(permits)
}

// servedSince returns nil if each Client got permits that it asked for after a time.
func (c *callers) servedSince(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, last := range c.last {
		if !last.After(at) {
			return fmt.Errorf("callers of Client %d are not served, errors %v", i, c.texts)
		}
	}
	return nil
}
