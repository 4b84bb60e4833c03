package rratelimiter

import (
	"fmt"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/ahead"
	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/host"
	"github.com/redisson-go/rratelimiter/internal/outage"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
	"github.com/redisson-go/rratelimiter/pubsub"
)

// A Client makes the limiters of one Redis: a single server, Sentinel or a cluster. It
// corresponds to a Redisson instance: its ID is the scope of PerClient limits. A Client
// is safe for concurrent use; a process needs one for each Redis.
type Client struct {
	host     host.Host      // for the other packages of this module
	engine   *engine.Engine // asks Redis
	guard    *outage.Guard  // decides while Redis is down
	ahead    *ahead.Ahead   // decides without Redis: leases, refusals
	policy   outage.Policy  // of calls that have none of their own
	observer Observer       // nil for none
}

// New returns a Client on rdb. The caller keeps rdb: Close does not close it. rdb may
// also be a type of the caller's that embeds a go-redis client, but not an
// AutoPipeliner, which hides the client behind it.
//
// A failed request is retried as rdb is configured (MaxRetries; for a cluster
// MaxRedirects) until its callers have left. A caller leaves at its timeout or the end of
// its context, with one exception below. A caller with neither waits as long as rdb does:
// by default some 20 s for a silent server (4 attempts with a ReadTimeout of 5 s; up to
// 29 s in a crowd that waits for connections), and 2 s if no server listens. Delete,
// Rename and calls that set a rate or a time to live are not retried: after an error they
// may have been carried out.
//
// With ContextTimeoutEnabled in the options of rdb, a lone caller with a timeout, a budget
// (WithBudget, WithFallback) or a deadline makes its request in its own goroutine, which is
// faster, unless its context can be cancelled and has no deadline. If its context is
// cancelled before the deadline just as Redis falls silent, it returns at the deadline,
// after the budget or after a ReadTimeout, whichever is first; later calls return when cancelled, until Redis
// replies again.
//
// Requests of different limiters that arrive while an earlier one is under way share
// pipelines. A type that embeds a go-redis client gets each command separately.
//
// New does not call Redis. If rdb or an option is nil, or an option is out of bounds,
// each method returns an ErrInvalidArgument that names it.
func New(rdb redis.UniversalClient, opts ...Option) *Client {
	s := settings{id: uuid.NewString(), mapper: func(name string) string { return name }}
	for _, opt := range opts {
		if opt != nil {
			opt.apply(&s)
		}
	}
	if of := redisOf(rdb); of != nil {
		rdb = of.UniversalClient
	}
	config := engine.Config{GoOnly: s.goOnly, Observed: s.observer != nil}
	config.ID, config.MapName, config.Clock = s.id, s.mapper, s.clock
	config.Err = s.validate(rdb, opts)
	if config.Err == nil {
		config.Plain = &wire.Layouts[s.format]
		config.Layout = config.Plain.ForClient()
		config.Runner = redisx.NewRunner(rdb)
		if s.replicas != nil {
			config.Runner.Confirm = *s.replicas
		}
		config.Hub = pubsub.New(rdb)
	}
	e := engine.New(config)
	guard := outage.New(e, s.outage)
	above := ahead.New(e, ahead.Settings{
		Remember: s.refusals, KnowsAll: guard.KnowsAll, NoteLease: guard.NoteLease,
		Leasable: config.Err == nil && config.Clock == nil && config.Plain.Leases(),
	})
	return &Client{
		host: host.Host{
			Redis: rdb, Runner: config.Runner, ID: s.id, MapName: s.mapper, Hub: config.Hub, Err: config.Err,
			Ctx: e.Context(), Go: e.Go, Work: e.Work,
			Off: guard.Off, Observe: observing(s.observer),
		},
		engine: e, guard: guard, ahead: above, policy: s.outage.Policy, observer: s.observer,
	}
}

// ID returns the scope of this Client's PerClient limits (RedissonClient.getId).
func (c *Client) ID() string { return c.host.ID }

// RateLimiter returns the limiter called name (RedissonClient.getRateLimiter). It does
// not call Redis. The first call rejects an empty name, and on a cluster a name whose
// keys would be in different slots.
//
// A RateLimiter is a cheap handle, which may be made for each request. The Client
// owns all state of a limiter in this process.
func (c *Client) RateLimiter(name string) *RateLimiter {
	return newRateLimiter(c, c.engine.Limiter("name", name, nil), c.policy, nil)
}

// Close gives back the unused permits of leases ([WithLease]), for at most 5 s, and stops when Redis has
// confirmed none for half a second. Then it ends all waiting calls with ErrClosed; later calls also return
// ErrClosed. A call that makes its own request (New) ends when go-redis returns. Permits that these calls may
// have taken come back an interval later.
//
// Close waits for the goroutines of the Client until a second after it was called, or half a second after the
// leases have ended, whichever is later. A goroutine that waits for a silent Redis may end after that, when
// go-redis times out. Close always returns nil and may be called twice.
func (c *Client) Close() error {
	c.engine.Close()
	return nil
}

// A method that returned the Host would be part of the API, so init passes it to the module's
// other packages through internal/host.
func init() {
	host.Of = func(client any) host.Host {
		c, ok := client.(*Client)
		if !ok {
			err := failure.InvalidOf("host.Of", "client", fmt.Sprintf("%T", client), "be a *Client")
			return host.Host{Err: err}
		}
		return c.host
	}
	host.On = func(rdb redis.UniversalClient) *host.Host {
		if r := redisOf(rdb); r != nil {
			return r.host()
		}
		return nil
	}
}
