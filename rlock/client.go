package rlock

import (
	"container/list"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/host"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A Client makes locks. It shares the connection, the ID, the name mapper and the subscriptions of a
// rratelimiter.Client, and ends when that is closed. A Client is safe for concurrent use; a process needs one
// for each Redis.
type Client struct {
	host     host.Host
	err      error // why it cannot be used, nil if it can
	watchdog time.Duration
	observer Observer // nil for none

	owners   owners
	instance string // 16 hex digits that make the idempotency keys of this Client unique

	mu      sync.Mutex
	lines   map[string]*line  // by hash, the lines with waiters; guarded by mu
	queues  map[string]*queue // the same for fair locks
	renewed list.List         // of *Hold, the next one due first; guarded by mu
	leased  list.List         // of *Hold with a lease of their own; guarded by mu
	runs    bool              // the goroutine of the watchdog runs; guarded by mu
	sooner  chan struct{}     // wakes the watchdog when a renewal is due earlier

	inPlace sync.RWMutex // read-locked by each request in the goroutine of its caller
	awaited sync.Once    // starts awaitInPlace

	shards  atomic.Bool // the channels are shard channels, by the last probe
	cleaner cleaner
}

// An Option is an option of New.
type Option interface{ apply(*Client) }

type option func(*Client)

func (set option) apply(c *Client) { set(c) }

// WithWatchdogTimeout sets the lease of holds that are renewed (Redisson's lockWatchdogTimeout). A lease
// is renewed when a third of it has passed. d is at least 30 ms and at most 3,660 days; the default is 30
// s, as in Redisson.
func WithWatchdogTimeout(d time.Duration) Option {
	return option(func(c *Client) { c.watchdog = d })
}

const (
	defaultWatchdog  = 30 * time.Second
	shortestWatchdog = 30 * time.Millisecond
	longest          = 10 * 366 * 24 * time.Hour // of any lease
)

// New returns a Client that shares the Redis, ID, name mapper and WithMinReplicas of limiters. Java
// sees the ID in the owner of a lock. The program need not use limiters for anything else:
//
//	locks := rlock.New(rratelimiter.New(rdb))
//
// Closing limiters ends the locks: renewals stop, and the contexts of holds end with ErrClosed as their
// cause. Locks that are still held expire with their leases, as in Redisson.
//
// New sends nothing to Redis. If limiters or an option is nil, or an option is out of bounds, each
// method returns an ErrInvalidArgument that names it.
func New(limiters *rratelimiter.Client, opts ...Option) *Client {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	c := &Client{
		watchdog: defaultWatchdog, lines: map[string]*line{}, queues: map[string]*queue{},
		sooner: make(chan struct{}, 1), instance: hex.EncodeToString(random[:8]),
	}
	c.owners.begin(random[8:])
	c.cleaner.client = c
	if limiters == nil {
		c.err = badOption("limiters", "nil", "be a Client")
		return c
	}
	c.host = host.Of(limiters)
	c.err = c.host.Err
	for i, opt := range opts {
		if opt == nil {
			c.err = badOption(fmt.Sprintf("opts[%d]", i), "nil", "be an Option")
			return c
		}
		opt.apply(c)
	}
	if c.watchdog < shortestWatchdog || c.watchdog > longest {
		c.err = badOption("the watchdog timeout", c.watchdog,
			fmt.Sprintf("be at least %v and at most %v", shortestWatchdog, longest))
	}
	if c.err == nil {
		context.AfterFunc(c.host.Ctx, c.close)
	}
	return c
}

// badOption returns the error for an argument of New out of its bounds.
func badOption(argument string, value any, bound string) error {
	return fmt.Errorf("%w of rlock.New: %s is %v, must %s", rratelimiter.ErrInvalidArgument, argument,
		value, bound)
}

// Lock returns the lock called name (RedissonClient.getLock). It sends nothing to Redis. The first call
// rejects an empty name, and on a cluster a name whose keys would be in different slots. A Lock is a cheap
// handle.
func (c *Client) Lock(name string) *Lock { return &Lock{handle{c.keysOf(name)}} }

// close ends all holds.
func (c *Client) close() {
	c.mu.Lock()
	var holds []*Hold
	for _, all := range []*list.List{&c.renewed, &c.leased} {
		for e := all.Front(); e != nil; e = e.Next() {
			if h, ok := e.Value.(*Hold); ok {
				holds = append(holds, h)
			}
		}
	}
	c.mu.Unlock()
	for _, h := range holds {
		h.end(rratelimiter.ErrClosed)
	}
}

// keys are the keys of one lock.
type keys struct {
	client *Client
	err    error  // why they cannot be used, nil if they can
	name   string // as the caller gave it, before the name mapper
	fenced bool
	fair   bool
	wire.LockKeys
}

// keysOf returns the keys of the lock called name.
func (c *Client) keysOf(name string) *keys {
	k := &keys{client: c, name: name, err: c.err}
	if k.err != nil {
		return k
	}
	if name == "" {
		k.err = k.invalid("name", `""`, "not be empty")
		return k
	}
	k.LockKeys = wire.LockKeysOf(c.host.MapName(name))
	switch {
	case k.Hash == "":
		k.err = k.invalid("name", k.described(), "not be mapped to an empty name")
	case c.host.Runner.Sharded && !k.OneSlot():
		k.err = k.invalid("name", k.described(), "be without braces, or with one non-empty {tag}, "+
			"on a cluster: its keys would be in different slots")
	}
	return k
}

// usable returns an error if a call cannot go ahead.
func (k *keys) usable(ctx context.Context) error {
	switch {
	case k.err != nil:
		return k.err
	case k.client.host.Ctx.Err() != nil:
		return rratelimiter.ErrClosed
	}
	return ended(ctx)
}

// probe finds out whether Redisson publishes on shard channels. It asks a cluster once, and assumes plain
// channels until the cluster replies. It returns an error if the user may not ask, because on different
// channels Go and Java would silently miss each other's messages.
func (c *Client) probe(ctx context.Context) error {
	has, err := c.host.Runner.ShardedPubSub(ctx)
	switch {
	case err == nil:
		c.shards.Store(has)
	case redis.IsPermissionError(err):
		return err
	}
	return nil
}

// sharded returns the script argument that is "1" if the lock's channels are shard channels.
func (k *keys) sharded() any {
	if k.client.shards.Load() {
		return "1"
	}
	return ""
}

// subscribe returns a signal for each unlock message on a channel of the lock: "0" or, in Redisson's other
// locks, "1".
func (k *keys) subscribe(channel string) (wake <-chan struct{}, cancel func()) {
	c := k.client
	if c.shards.Load() {
		return c.host.Hub.Sharded(channel, "0", "1")
	}
	return c.host.Hub.Subscribe(channel, "0", "1")
}

// force unlocks the lock for any holder.
func (k *keys) force(ctx context.Context) (bool, error) {
	return ask(ctx, k, func(ctx context.Context) (bool, error) {
		if err := k.client.probe(ctx); err != nil {
			return false, err
		}
		call := redisx.Call{
			Script: forceScript, Keys: []any{k.Hash, k.Channel}, Args: []any{k.sharded()}, Done: did,
		}
		if k.fair {
			call.Script, call.Keys = fairForceScript, k.fairKeys()
		}
		reply, _, err := k.client.host.Runner.Run(ctx, &call)
		return reply.At(0) == 1 && err == nil, err
	}, nil)
}

// did reports whether a script has changed something.
func did(reply redisx.Reply) bool { return reply.At(0) > 0 }
