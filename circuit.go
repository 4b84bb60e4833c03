package rratelimiter

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

const (
	// openAfter is how many failures in a row open a circuit. Those of callers who
	// came before the last one was noticed are the same failure.
	openAfter = 3

	// circuitsOfSlots is how many circuits the slots of a cluster have. Neighbours
	// live on the same server, but for those at an edge.
	circuitsOfSlots = 64

	// While a circuit is open, a probe looks whether Redis is back: at first
	// firstProbe after the failure, and then after twice the last pause, up to
	// slowestProbe. It waits for probeLimit.
	firstProbe   = 100 * time.Millisecond
	slowestProbe = time.Second
	probeLimit   = 2 * time.Second
)

// Health is the state of the connection of a Client to its Redis.
type Health struct {
	// Degraded reports that a circuit is open: calls that have a Fallback or a
	// budget are answered without Redis.
	Degraded bool

	// Since is when that began, and Cause the error that it began with.
	Since time.Time
	Cause error

	// Decided counts the calls of this Client for which a Fallback decided.
	Decided int64

	// Unbooked is how many permits were granted by FallbackLocal that Redis does
	// not know of yet.
	Unbooked int64
}

// Health returns whether the Client reaches its Redis, as its calls have found it. It
// does not ask Redis. Only calls that have a fallback or a budget can find out.
func (c *Client) Health() Health {
	g := &c.guard
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.health()
}

// A guard is what a Client knows about the health of its Redis.
type guard struct {
	client  *Client
	share   float64 // of a rate, for FallbackLocal
	fixed   bool    // it is the user's: otherwise it is learnt
	hook    func(Health)
	off     atomic.Bool // nothing is limited
	decided atomic.Int64

	circuits [circuitsOfSlots]circuit
	open     atomic.Int32 // circuits; changed under mu

	mu      sync.Mutex
	since   time.Time // guarded by mu, as all below is
	why     error
	news    []Health          // not told to the hook yet
	telling bool              // a goroutine tells them
	shards  []string          // addresses of a Ring, each with the circuit of its place
	locals  map[string]*local // by hash
	swept   time.Time         // when those that nobody used were last removed
}

func (g *guard) init(c *Client) {
	g.client = c
	for i := range g.circuits {
		g.circuits[i].guard = g
		g.circuits[i].sessions.atOnce = make(chan struct{}, groupCallsAtOnce)
	}
}

// health returns the health. Guarded by mu.
func (g *guard) health() Health {
	h := Health{Degraded: g.open.Load() > 0, Decided: g.decided.Load()}
	if h.Degraded {
		h.Since, h.Cause = g.since, g.why
	}
	for _, local := range g.locals {
		h.Unbooked += local.unbooked()
	}
	return h
}

// circuit returns the circuit of a limiter.
func (g *guard) circuit(k *limiterKeys) *circuit {
	i := 0
	if shard := g.client.runner.Shard(k.Hash); shard != "" {
		i = g.shard(shard)
	} else if g.client.runner.Sharded {
		i = wire.Slot(k.Hash) * circuitsOfSlots / wire.Slots
	}
	return &g.circuits[i]
}

// shard returns the place of a shard of a Ring.
func (g *guard) shard(addr string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.shards, addr)
	if i < 0 {
		i = len(g.shards)
		g.shards = append(g.shards, addr)
	}
	return i % circuitsOfSlots
}

// changed notes that a circuit was opened or closed, and tells the hook if that makes a
// difference. The hook is called without a lock, by one goroutine at a time: it may do
// what changes the state again.
func (g *guard) changed(by int32, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.open.Load() > 0
	if g.open.Add(by); !was {
		g.since, g.why = time.Now(), why
	}
	h := g.health()
	if g.hook == nil || was == h.Degraded {
		return
	}
	g.news = append(g.news, h)
	if g.telling {
		return
	}
	g.telling = true
	defer func() { g.telling = false }() // also if the hook panics
	for len(g.news) > 0 {
		h, g.news = g.news[0], g.news[1:]
		g.tell(h)
	}
}

// tell calls the hook. Guarded by mu, which it leaves meanwhile.
func (g *guard) tell(h Health) {
	g.mu.Unlock()
	defer g.mu.Lock()
	g.hook(h)
}

// A circuit says whether Redis is asked. It is open while Redis is not.
type circuit struct {
	guard  *guard
	opened atomic.Pointer[error]     // why it is open, nil if it is closed
	closed atomic.Pointer[time.Time] // when it was last closed, nil if it never was
	bad    atomic.Bool               // there were failures since the last reply

	sessions sessions // of the calls of Groups

	mu       sync.Mutex
	failures int          // since the last reply; guarded by mu, as all below is
	noticed  time.Time    // when the last of them was
	mending  bool         // the goroutine that looks whether Redis is back
	probed   *limiterKeys // the limiter by which it does
}

// cause returns why Redis is not asked, nil if it is.
func (c *circuit) cause() error {
	if why := c.opened.Load(); why != nil {
		return *why
	}
	return nil
}

// returning reports whether Redis was found to be back so lately that other Clients may
// not know it yet: they probe at least as often.
func (c *circuit) returning() bool {
	closed := c.closed.Load()
	return closed != nil && time.Since(*closed) < slowestProbe*5/4+probeLimit
}

// replied notes that Redis has replied to an acquire.
func (c *circuit) replied() {
	if c.bad.Load() {
		c.mu.Lock()
		c.failures = 0
		c.bad.Store(false)
		c.mu.Unlock()
	}
}

// failed notes that Redis has failed for a call that began at a time.
func (c *circuit) failed(k *limiterKeys, began time.Time, err error) {
	c.mu.Lock()
	if began.Before(c.noticed) {
		c.mu.Unlock()
		return
	}
	c.failures++
	c.noticed = time.Now()
	c.bad.Store(true)
	opens := c.failures >= openAfter && c.opened.Load() == nil
	if opens {
		c.opened.Store(&err)
	}
	c.mu.Unlock()
	if opens {
		c.mend(k)
		c.guard.changed(1, err)
	}
}

// mend sees to it that a goroutine looks whether Redis is back, and books what was
// granted meanwhile.
func (c *circuit) mend(k *limiterKeys) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mending {
		c.probed = k
		c.mending = c.guard.client.goBackground(c.mendUntilWell)
	}
}

// mendUntilWell probes Redis until it is back and everything is booked.
func (c *circuit) mendUntilWell(ctx context.Context) {
	pause := firstProbe
	if c.returning() { // it was back, and soon away again
		pause = slowestProbe
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		well := c.probe(ctx)
		if well {
			// What was granted during the probe is booked with the circuit closed, when
			// there will be no more of it.
			c.close()
			well, _ = c.book(ctx)
		}
		if well && c.ends() {
			return
		}
		pause = min(2*pause, slowestProbe)
		// Many processes must not probe at the same moment.
		timer.Reset(pause*3/4 + rand.N(pause/2))
	}
}

// probe reports whether Redis is back. If it is, what was granted without it is booked. A probe
// that fails counts as a failed call: while callers live on the share, nothing else asks Redis.
func (c *circuit) probe(ctx context.Context) bool {
	c.mu.Lock()
	k := c.probed
	c.mu.Unlock()
	budget := defaultBudget
	if p := c.guard.client.policy; p.bounded {
		budget = max(p.budget, leastBudget)
	}
	asked := time.Now()
	_, err := k.askPeers(ctx, "")
	took := time.Since(asked)
	if err == nil && took > budget {
		err = k.silent(budget, nil) // callers would not wait as long
	}
	if failed(err) && !redisx.Final(err) {
		c.failed(k, time.Now().Add(-min(took, budget)), err)
		return false
	}
	c.replied()
	_, reached := c.book(ctx)
	return reached
}

// book books what was granted without Redis. It reports whether all is booked, and
// whether Redis was reached: it may refuse. Of limiters that were found without a rate it
// asks for a few, in random order: Redis may have come back empty, with thousands of them.
func (c *circuit) book(ctx context.Context) (all, reached bool) {
	const few = 50
	all = true
	unset := 0
	for _, local := range c.guard.unbooked(c) {
		if local.unset.Load() {
			if unset++; unset > few {
				continue
			}
		}
		if err := local.book(ctx); failed(err) {
			if all = false; !redisx.Final(err) {
				return false, false
			}
		}
	}
	return all, true
}

// close has Redis asked again.
func (c *circuit) close() {
	if c.opened.Load() == nil {
		return
	}
	c.mu.Lock()
	c.closed.Store(new(time.Now()))
	c.opened.Store(nil)
	c.failures = 0
	c.mu.Unlock()
	c.guard.changed(-1, nil)
}

// ends reports whether there is nothing left to book. Where a limiter has no rate any
// more, what was granted is kept until its interval is over: there may be a rate soon.
func (c *circuit) ends() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mending = len(c.guard.unbooked(c)) > 0 || c.opened.Load() != nil
	return !c.mending
}
