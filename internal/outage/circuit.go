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

// A circuit says whether Redis is asked. It is open while Redis is not.
type circuit struct {
	guard            *Guard
	openedBy         atomic.Pointer[error]     // why it is open, nil if it is closed
	closedAt         atomic.Pointer[time.Time] // when it was last closed, nil if it never was
	failedSinceReply atomic.Bool               // there were failures since the last reply

	mu            sync.Mutex
	failures      int             // since the last reply; guarded by mu, as all below is
	lastFailureAt time.Time       // when the last of them was
	probing       bool            // the goroutine that looks whether Redis is back
	probedLimiter *engine.Limiter // the limiter by which it does
}

// cause returns why Redis is not asked, nil if it is.
func (c *circuit) openCause() error {
	if why := c.openedBy.Load(); why != nil {
		return *why
	}
	return nil
}

// returning reports whether Redis was found to be back so lately that other Clients may
// not know it yet: they probe at least as often.
func (c *circuit) returning() bool {
	closed := c.closedAt.Load()
	return closed != nil && time.Since(*closed) < slowestProbe*5/4+probeLimit
}

// replied notes that Redis has replied to an acquire.
func (c *circuit) noteReply() {
	if c.failedSinceReply.Load() {
		c.mu.Lock()
		c.failures = 0
		c.failedSinceReply.Store(false)
		c.mu.Unlock()
	}
}

// failed notes that Redis has failed for a call that began at a time.
func (c *circuit) noteFailure(limiter *engine.Limiter, began time.Time, err error) {
	c.mu.Lock()
	if began.Before(c.lastFailureAt) {
		c.mu.Unlock()
		return
	}
	c.failures++
	c.lastFailureAt = time.Now()
	c.failedSinceReply.Store(true)
	opens := c.failures >= openAfter && c.openedBy.Load() == nil
	if opens {
		c.openedBy.Store(&err)
	}
	c.mu.Unlock()
	if opens {
		c.startProbing(limiter)
		c.guard.noteCircuit(1, err)
	}
}

// mend sees to it that a goroutine looks whether Redis is back, and books what was
// granted meanwhile.
func (c *circuit) startProbing(limiter *engine.Limiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.probing {
		c.probedLimiter = limiter
		c.probing = c.guard.engine.Go(c.probeUntilBooked)
	}
}

// mendUntilWell probes Redis until it is back and everything is booked.
func (c *circuit) probeUntilBooked(ctx context.Context) {
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
		if well && c.endsProbing() {
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
	limiter := c.probedLimiter
	c.mu.Unlock()
	budget := defaultBudget
	if p := c.guard.settings.Policy; p.Bounded {
		budget = max(p.Budget, leastBudget)
	}
	asked := time.Now()
	_, err := askPeers(ctx, limiter, nil)
	took := time.Since(asked)
	if err == nil && took > budget {
		err = limiter.Named(engine.Silent(budget, nil)) // callers would not wait as long
	}
	if Failed(err) && !redisx.Final(err) {
		c.noteFailure(limiter, time.Now().Add(-min(took, budget)), err)
		return false
	}
	c.noteReply()
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
		if local.withoutRate.Load() {
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
	if c.openedBy.Load() == nil {
		return
	}
	c.mu.Lock()
	c.closedAt.Store(new(time.Now()))
	c.openedBy.Store(nil)
	c.failures = 0
	c.mu.Unlock()
	c.guard.noteCircuit(-1, nil)
}

// ends reports whether there is nothing left to book. Where a limiter has no rate any
// more, what was granted is kept until its interval is over: there may be a rate soon.
func (c *circuit) endsProbing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probing = len(c.guard.unbooked(c)) > 0 || c.openedBy.Load() != nil
	return !c.probing
}
