package outage

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/internal/redisx"
)

const (
	// openAfter is how many failures in a row open a circuit. Those of callers who
	// came before the last one was noticed are the same failure.
	openAfter = 3

	// While a circuit is open, a probe looks whether Redis is back: at first
	// firstProbe after the failure, and then after twice the last pause, up to
	// slowestProbe. It waits for probeLimit.
	firstProbe   = 100 * time.Millisecond
	slowestProbe = time.Second
	probeLimit   = 2 * time.Second
)

// Health is the state of the connection to Redis.
type Health struct {
	Degraded bool      // a circuit is open
	Since    time.Time // when that began
	Cause    error     // the error that it began with
	Decided  int64     // calls for which a fallback decided
	Unbooked int64     // permits of which Redis does not know yet
}

// Settings are what a Guard is made with.
type Settings struct {
	Policy Policy  // of calls that have no other
	Share  float64 // of a rate, for Local
	Fixed  bool    // the share is the user's: otherwise it is learnt
	Hook   func(Health)
}

// New returns the Guard of an Engine.
func New(e *engine.Engine, settings Settings) *Guard {
	g := &Guard{engine: e, settings: settings}
	for i := range g.circuits {
		g.circuits[i].guard = g
	}
	return g
}

// A Guard is what a Client knows about the health of its Redis.
type Guard struct {
	engine   *engine.Engine
	settings Settings
	off      atomic.Bool // nothing is limited
	decided  atomic.Int64

	circuits [engine.Servers]circuit // one for each server
	open     atomic.Int32            // circuits; changed under mu

	mu      sync.Mutex
	since   time.Time // guarded by mu, as all below is
	why     error
	news    []Health          // not told to the hook yet
	telling bool              // a goroutine tells them
	locals  map[string]*local // by hash
	swept   time.Time         // when those that nobody used were last removed
}

// SetLimiting turns limiting off and on.
func (g *Guard) SetLimiting(on bool) { g.off.Store(!on) }

// Off reports whether nothing is limited.
func (g *Guard) Off() bool { return g.off.Load() }

// Health returns the health, as calls have found it.
func (g *Guard) Health() Health {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.health()
}

// health returns the health. Guarded by mu.
func (g *Guard) health() Health {
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
func (g *Guard) circuit(limiter *engine.Limiter) *circuit { return &g.circuits[limiter.Server()] }

// changed notes that a circuit was opened or closed, and tells the hook if that makes a
// difference. The hook is called without a lock, by one goroutine at a time: it may do
// what changes the state again.
func (g *Guard) changed(by int32, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.open.Load() > 0
	if g.open.Add(by); !was {
		g.since, g.why = time.Now(), why
	}
	h := g.health()
	if g.settings.Hook == nil || was == h.Degraded {
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
func (g *Guard) tell(h Health) {
	g.mu.Unlock()
	defer g.mu.Lock()
	g.settings.Hook(h)
}

// A circuit says whether Redis is asked. It is open while Redis is not.
type circuit struct {
	guard  *Guard
	opened atomic.Pointer[error]     // why it is open, nil if it is closed
	closed atomic.Pointer[time.Time] // when it was last closed, nil if it never was
	bad    atomic.Bool               // there were failures since the last reply

	mu       sync.Mutex
	failures int             // since the last reply; guarded by mu, as all below is
	noticed  time.Time       // when the last of them was
	mending  bool            // the goroutine that looks whether Redis is back
	probed   *engine.Limiter // the limiter by which it does
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
func (c *circuit) failed(limiter *engine.Limiter, began time.Time, err error) {
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
		c.mend(limiter)
		c.guard.changed(1, err)
	}
}

// mend sees to it that a goroutine looks whether Redis is back, and books what was
// granted meanwhile.
func (c *circuit) mend(limiter *engine.Limiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mending {
		c.probed = limiter
		c.mending = c.guard.engine.Go(c.mendUntilWell)
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

// probe reports whether Redis is back. If it is, what was granted without it is booked.
func (c *circuit) probe(ctx context.Context) bool {
	c.mu.Lock()
	limiter := c.probed
	c.mu.Unlock()
	asked := time.Now()
	if _, err := askPeers(ctx, limiter); Failed(err) && !redisx.Final(err) {
		return false
	}
	budget := defaultBudget
	if p := c.guard.settings.Policy; p.Bounded {
		budget = max(p.Budget, leastBudget)
	}
	if time.Since(asked) > budget {
		return false // callers would not wait as long
	}
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
		if err := local.book(ctx); Failed(err) {
			if all = false; !redisx.Final(err) {
				return false, false
			}
		}
	}
	return all, true
}

// close closes the circuit: Redis is asked again.
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
