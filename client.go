package rratelimiter

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/host"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
	"github.com/redisson-go/rratelimiter/pubsub"
)

// A Client hands out the limiters that live in one Redis, single server,
// Sentinel or cluster. It stands for one Redisson instance: its ID is the
// scope of PerClient limits. A Client is safe for concurrent use; a process
// needs one for each Redis.
type Client struct {
	rdb    redis.UniversalClient
	id     string
	clock  func() time.Time
	mapper func(string) string
	err    error // why the Client cannot be used, nil if it can
	runner redisx.Runner

	ctx   context.Context // ends with Close
	close context.CancelFunc

	hub *pubsub.Hub // tells waiters that something has changed

	redisson   string       // WithRedisson
	format     int          // of records, an index of wire.Layouts; below 0 if redisson has none
	layout     *wire.Layout // of format, with the mark of this Client
	mark       any          // a record that bears it; []byte, boxed for go-redis
	resolution time.Duration

	// session is the name of the field by which this Client's requests are known
	// in each limiter (scripts/parts/session.lua), boxed for go-redis; requests is
	// the number of the last one, of whichever limiter.
	session       any
	sessionName   string
	groupSessions atomic.Int64 // counts the sessions of its Groups' calls

	groupWaiting atomic.Int64 // callers of Groups who stand in lines
	requests     atomic.Int64
	withdrawals  withdrawals
	types        types

	queuesMu sync.Mutex
	queues   map[string]*queue // by hash, those in use; guarded by queuesMu
	spare    sync.Pool         // of *queue, not in use
	waiters  sync.Pool         // of *waiter

	policy policy
	guard  guard

	observer Observer // nil if nobody observes

	goOnly   bool
	replicas *redisx.Confirmation  // WithMinReplicas; nil without it
	turns    atomic.Pointer[turns] // what the queue that decided last came to

	jobs chan func(ctx context.Context) // to workers that have nothing to do
	idle atomic.Int32                   // how many these are

	mu         sync.Mutex     // held where ctx ends, and where the goroutines are counted
	background sync.WaitGroup // what Close waits for; Add under mu
}

// An Option is an option of New.
type Option interface{ apply(*Client) }

type option func(*Client)

func (set option) apply(c *Client) { set(c) }

// WithID sets the ID of the Client, the scope of its PerClient limits. Give
// each process that runs at the same time one of its own, for example the
// name of its pod, so that its limits survive a restart. An ID with a brace or
// an empty one is refused by the first call. The default is a random UUID, as
// in Redisson.
func WithID(id string) Option {
	return option(func(c *Client) { c.id = id })
}

// WithClock makes the Client take its time from now instead of from the Redis
// server. With time.Now it behaves as Redisson does, which reads the clock of
// the JVM. Clocks that differ between clients make a limit wrong by as much,
// until a client that goes by the server meets a record and puts it right. If they
// differ by more than a minute, a request that is sent again may be charged twice.
// The default, also for a nil now, is the clock of the server, which all clients
// share.
func WithClock(now func() time.Time) Option {
	return option(func(c *Client) { c.clock = now })
}

// WithNameMapper makes the Client keep the limiter called name under mapName(name)
// (Redisson's NameMapper). A nil mapName is refused by the first call: without the
// mapping, names would be those of other limiters. The default keeps names as they
// are.
func WithNameMapper(mapName func(name string) string) Option {
	return option(func(c *Client) { c.mapper = mapName })
}

// WithResolution makes the Client keep one record for all permits that Go takes
// from a limiter in a slot of d, instead of one for each grant. An interval then
// never holds more than interval/d+1 records of Go, and permits come back up to d
// later, never earlier. For Java these are records like any other. All Clients of a
// limiter should have the same resolution. d is at least 1 ms, a fraction of a ms
// is dropped. The default is 0: a record for each grant.
func WithResolution(d time.Duration) Option {
	return option(func(c *Client) { c.resolution = d })
}

// WithRedisson names the oldest version of Redisson that shares limiters with this Client, such
// as "3.16.4". The Client then writes records that this version can read. It reads the records
// of all versions, whichever it writes; Repair rewrites those of a limiter.
//
// The bytes of records have changed with 3.16.4, 3.17.0 and 3.21.0. A version before 3.17.0
// reads only its own, so beside it the option is needed; beside later ones it may be left out.
// version is a release of three numbers, 3.13.3 or later: "3.16" is refused, for its patch
// releases differ, and so is a pre-release. The default is the newest version.
func WithRedisson(version string) Option {
	return option(func(c *Client) { c.redisson, c.format = version, wire.Beside(version) })
}

// WithGoOnly says that no Java client uses the limiters of this Client. Then
// every wait ends the moment permits are due.
//
// Without it, the waiters of Go let those of Java go first where Go has taken more
// than half of the permits of the last interval: by up to 100 ms, and at most the
// interval, for a waiter of Redisson wakes up late by as much. Where nobody but Go
// takes permits, one wait in 10 s is late.
func WithGoOnly() Option {
	return option(func(c *Client) { c.goOnly = true })
}

// WithMinReplicas makes each call that takes permits wait until n replicas have them,
// so that a failover does not forget them: by WAIT, behind the script and in the same
// write to the connection. The same holds for what gives permits back, sets a rate or a
// time to live, deletes and renames. If fewer than n replicas confirm within timeout,
// the call returns an ErrNotReplicated, and what an acquire took is given back. A call
// that changes nothing, as one that is refused, needs no replica.
//
// n is at least 1. timeout is at least 1 ms, a fraction of a ms is dropped, and is
// less than the ReadTimeout of rdb, which would end the call before; a caller's own
// timeout and context hold besides. One limiter has one request under way at a time, so
// while replicas are away its calls take up to timeout each, one after another. The Redis
// user needs the command WAIT. The default is to wait for none, as in Redisson.
func WithMinReplicas(n int, timeout time.Duration) Option {
	return option(func(c *Client) {
		c.replicas = &redisx.Confirmation{Replicas: n, Within: timeout}
	})
}

// sessionLetters is how many of the random ones name a session: 80 bits, so that
// no two Clients ever have the same.
const sessionLetters = 16

// New returns a Client on rdb, which stays the caller's: Close does not close
// it. rdb may also be a client of the caller's that embeds one of go-redis, but
// not an AutoPipeliner alone, which does not show what is behind it.
//
// Requests are sent again as often as rdb is set to (MaxRetries; for a cluster
// MaxRedirects), until their callers have left. A caller leaves at its timeout or
// the end of its context, whatever rdb is set to. A caller without either waits as
// long as rdb does: with its defaults some 20 s for a server that says nothing (4
// attempts of a ReadTimeout of 5 s), and 2 s where nobody listens. What sets a
// rate, Delete, Rename and what sets a time to live are not sent again: after an
// error they may have been done.
//
// New does not ask Redis for anything. If rdb or an option is nil, or an option
// out of its bounds, each method returns an ErrInvalidArgument that names it.
func New(rdb redis.UniversalClient, opts ...Option) *Client {
	c := &Client{
		rdb: rdb, id: uuid.NewString(), mapper: func(name string) string { return name },
		sessionName: wire.SessionPrefix + rand.Text()[:sessionLetters],
		queues:      map[string]*queue{}, jobs: make(chan func(context.Context)),
	}
	c.session = c.sessionName
	for _, opt := range opts {
		if opt != nil {
			opt.apply(c)
		}
	}
	c.ctx, c.close = context.WithCancel(context.Background())
	c.guard.init(c)
	c.err = c.validate(opts)
	if c.err == nil {
		c.layout = wire.Layouts[c.format].ForClient()
		c.mark = c.layout.Append(nil, 0, c.resolution > 0)
		c.runner = redisx.NewRunner(rdb)
		if c.replicas != nil {
			c.runner.Confirm = *c.replicas
		}
		c.hub = pubsub.New(rdb)
	}
	return c
}

// validate returns why the Client cannot be used.
func (c *Client) validate(opts []Option) error {
	refuse := func(argument string, value any, bound string) error {
		return &argumentError{"of New", argument, value, bound}
	}
	none := slices.Index(opts, nil)
	_, bare := c.rdb.(*redis.AutoPipeliner)
	switch {
	case redisx.IsNil(c.rdb):
		return refuse("rdb", "nil", "be a go-redis client")
	case bare: // nobody can see whether there is a cluster behind it
		return refuse("rdb", "an AutoPipeliner",
			"be embedded beside its client: docs/algorithms.md, Many callers")
	case none >= 0:
		return refuse(fmt.Sprintf("opts[%d]", none), "nil", "be an Option")
	case c.id == "" || strings.ContainsAny(c.id, "{}"):
		return refuse("id", strconv.Quote(c.id), "be a text without braces")
	case c.mapper == nil:
		return refuse("mapName", "nil", "be a function")
	case c.format < 0:
		return refuse("version of WithRedisson", strconv.Quote(c.redisson),
			fmt.Sprintf("be a release of three numbers, %s or later", wire.Layouts[wire.FI].Since))
	case c.resolution != 0 && c.resolution < time.Millisecond:
		return refuse("resolution", c.resolution, "be 0 or at least 1ms")
	case c.guard.fixed && !(c.guard.share > 0 && c.guard.share <= 1): // or not a number
		return refuse("share", c.guard.share, "be more than 0 and at most 1")
	}
	if err := c.policy.validate("of New"); err != nil {
		return err
	}
	return c.validateReplicas(refuse)
}

// validateReplicas returns why WithMinReplicas cannot be used.
func (c *Client) validateReplicas(refuse func(argument string, value any, bound string) error) error {
	if c.replicas == nil {
		return nil
	}
	// WAIT must end before go-redis takes the server for silent.
	longest := redisx.KindOf(c.rdb).ReadTimeout
	switch n, within := c.replicas.Replicas, c.replicas.Within; {
	case n < 1:
		return refuse("n of WithMinReplicas", n, "be at least 1")
	case within < time.Millisecond:
		return refuse("timeout of WithMinReplicas", within, "be at least 1ms")
	case c.policy.bounded && within >= c.policy.budget:
		return refuse("timeout of WithMinReplicas", within,
			fmt.Sprintf("be less than the budget, which is %v", c.policy.budget))
	case longest > 0 && within >= longest:
		return refuse("timeout of WithMinReplicas", within,
			fmt.Sprintf("be less than the ReadTimeout of rdb, which is %v", longest))
	}
	return nil
}

// ID returns the scope of this Client's PerClient limits (RedissonClient.getId).
func (c *Client) ID() string { return c.id }

// RateLimiter returns the limiter called name (RedissonClient.getRateLimiter).
// It does not ask Redis. An empty name, or on a cluster one whose keys would
// be in different slots, is refused by the first call.
//
// A RateLimiter is a cheap handle: one may be made for each request. What is
// known of a limiter belongs to the Client.
func (c *Client) RateLimiter(name string) *RateLimiter {
	l := &RateLimiter{policy: c.policy}
	l.keys.Store(c.keysOf("name", name))
	return l
}

// Close ends all calls that wait, at once, with ErrClosed; later calls return
// ErrClosed, too. What they may have taken comes back by itself an interval later.
// Close then waits for the goroutines of the Client, a second at most: one that
// waits for a silent Redis ends with go-redis's timeouts. It always returns nil;
// closing twice is allowed.
func (c *Client) Close() error {
	const closing = time.Second // more would hold up the end of a process
	c.mu.Lock()
	c.close()
	c.mu.Unlock()
	c.queuesMu.Lock()
	queues := slices.Collect(maps.Values(c.queues))
	c.queuesMu.Unlock()
	for _, q := range queues {
		q.mu.Lock()
		q.close()
		q.mu.Unlock()
	}
	ended := make(chan struct{})
	go func() {
		if c.hub != nil {
			c.hub.Close()
		}
		c.background.Wait()
		close(ended)
	}()
	timer := time.NewTimer(closing)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
	return nil
}

// closed reports whether Close was called.
func (c *Client) closed() bool { return c.ctx.Err() != nil }

// now returns the time to send: empty for that of the server.
func (c *Client) now() any {
	if c.clock == nil {
		return ""
	}
	return c.clock().UnixMilli()
}

// A method that returned the Host would be part of the API, so init hands it to other packages
// of this module through internal/host, which users cannot import.
func init() {
	host.Of = func(client any) host.Host {
		c, ok := client.(*Client)
		if !ok {
			err := &argumentError{"of host.Of", "client", fmt.Sprintf("%T", client), "be a *Client"}
			return host.Host{Err: err}
		}
		return host.Host{
			Redis: c.rdb, Runner: c.runner, ID: c.id, MapName: c.mapper, Hub: c.hub, Err: c.err,
			Ctx: c.ctx, Go: c.goBackground, Work: c.work,
		}
	}
}
