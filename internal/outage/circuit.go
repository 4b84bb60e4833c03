package outage

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/redisx"
)

const (
	// openAfter is how many consecutive failures open a circuit. Failures of
	// calls that began before the last failure was noticed do not count: a
	// burst of callers meets one outage, not many.
	openAfter = 3

	// While a circuit is open, a probe checks whether Redis is back: firstProbe after the
	// failure, and then after twice the last pause, up to slowestProbe. It waits for at
	// most probeLimit, longer than callers would, because even a slow reply shows that
	// Redis is there.
	firstProbe   = 100 * time.Millisecond
	slowestProbe = time.Second
	probeLimit   = 2 * time.Second
)

// A circuit decides whether Redis is asked: while it is open, Redis is not. Every call
// reads it, so reading takes no lock.
type circuit struct {
	guard    *Guard
	openedBy atomic.Pointer[error] // the failure that opened it, nil if it is closed
	// wellSince is when Redis last became well, as far as is known: the circuit was closed,
	// or Redis refused a write. nil if it never failed.
	wellSince atomic.Pointer[time.Time]
	// failedSinceReply spares noteReply the lock while Redis is well.
	failedSinceReply atomic.Bool

	mu            sync.Mutex
	failures      int             // since the last reply; guarded by mu, as all below
	lastFailureAt time.Time       // when the last of them was noticed
	probing       bool            // a goroutine probes Redis
	probedLimiter *engine.Limiter // the limiter that it asks about
}

// openCause returns why Redis is not asked, nil if it is.
func (c *circuit) openCause() error {
	if why := c.openedBy.Load(); why != nil {
		return *why
	}
	return nil
}

// returning reports whether Redis came back so recently that another Client may not know
// yet. Each Client probes at least that often.
func (c *circuit) returning() bool {
	since := c.wellSince.Load()
	return since != nil && time.Since(*since) < slowestProbe*5/4+probeLimit
}

// noteRefused records that Redis replies and refuses all writes. That does not open the circuit,
// but when it ends, other Clients have grants to book as well.
func (c *circuit) noteRefused() { c.wellSince.Store(new(time.Now())) }

// noteReply records that Redis has replied to an acquire.
func (c *circuit) noteReply() {
	if c.failedSinceReply.Load() {
		c.mu.Lock()
		c.failures = 0
		c.failedSinceReply.Store(false)
		c.mu.Unlock()
	}
}

// noteFailure records that Redis has failed for a call that began at a time.
func (c *circuit) noteFailure(limiter *engine.Limiter, began time.Time, err error) {
	err = failure.Outage(err)
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
	if opens { // without mu: startProbing locks it, and the hook may call anything
		c.startProbing(limiter)
		c.guard.noteCircuit(1, err)
	}
}

// startProbing starts the goroutine that checks whether Redis is back, and books
// the grants made meanwhile.
func (c *circuit) startProbing(limiter *engine.Limiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.probing {
		c.probedLimiter = limiter
		c.probing = c.guard.engine.Go(c.probeUntilBooked)
	}
}

// probeUntilBooked probes Redis until it is back and has all bookings.
func (c *circuit) probeUntilBooked(ctx context.Context) {
	pause := firstProbe
	if c.returning() { // it was back, and was soon away again
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
		if ctx.Err() != nil { // Close has ended the probe, and Redis has not replied
			return
		}
		if well {
			// Grants during the probe are booked after the circuit is closed:
			// only then do no more of them follow.
			c.close()
			well, _ = c.book(ctx)
		}
		if well && c.endsProbing() {
			return
		}
		pause = min(2*pause, slowestProbe)
		// The pause varies, so that processes do not probe at the same moment.
		timer.Reset(pause*3/4 + rand.N(pause/2))
	}
}

// probe reports whether Redis is back, and if so books the grants made without
// it. A failed probe counts as a failed call, because no other call asks Redis
// while callers live on the share.
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
		err = limiter.Named(failure.Silent(budget, nil)) // callers would not wait that long
	}
	if Failed(err) && !redisx.Final(err) {
		c.noteFailure(limiter, time.Now().Add(-min(took, budget)), err)
		return false
	}
	// The circuit stays open while the first bookings are sent. If it closed
	// before, calls would take permits from Redis that were granted locally and
	// are not booked yet.
	c.noteReply()
	_, reached := c.book(ctx)
	return reached
}

// book books the grants made without Redis. all reports whether Redis has all
// bookings, reached whether it was reached at all: it may also refuse them. When a
// few bookings of a round have failed, book leaves out limiters whose last booking also
// failed: Redis may have come back empty, or be out of memory, with thousands of them.
func (c *circuit) book(ctx context.Context) (all, reached bool) {
	const few = 50
	all = true
	failed := 0
	for _, local := range c.guard.unbooked(c) {
		if failed >= few && local.bookingFailed.Load() {
			continue // the order of a map is random, so each round asks for other limiters
		}
		err := local.book(ctx)
		if err != nil {
			failed++
		}
		if Failed(err) {
			if all = false; !redisx.Final(err) {
				return false, false
			}
		}
	}
	return all, true
}

// close closes the circuit: calls ask Redis again.
func (c *circuit) close() {
	if c.openedBy.Load() == nil {
		return
	}
	c.mu.Lock()
	// wellSince first: a call that finds the circuit closed must also find that
	// Redis is returning, or it would take more than its share.
	c.wellSince.Store(new(time.Now()))
	c.openedBy.Store(nil)
	c.mu.Unlock()
	c.guard.noteCircuit(-1, nil)
}

// endsProbing reports whether nothing is left to book, and then marks the goroutine as
// ended: under mu, so that a grant after that starts a new one. If a limiter no longer
// has a rate, its grants are kept for their interval: a rate may be set soon.
func (c *circuit) endsProbing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probing = len(c.guard.unbooked(c)) > 0 || c.openedBy.Load() != nil
	return !c.probing
}
