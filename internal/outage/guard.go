package outage

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/internal/request"
)

// Health is the state of the connection to Redis.
type Health struct {
	Degraded bool      // a circuit is open
	Since    time.Time // when that began
	Cause    error     // the error that opened it
	Decided  int64     // calls for which a fallback decided
	Unbooked int64     // permits that Redis does not know of yet
}

// Settings are the settings of a Guard.
type Settings struct {
	Policy Policy  // of calls that have none of their own
	Share  float64 // of a rate, for Local
	Fixed  bool    // Share is the user's; otherwise it is learnt
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

// A Guard holds what a Client knows about the health of its Redis, and the
// limiters that it can limit alone.
type Guard struct {
	engine          *engine.Engine
	settings        Settings
	limitingOff     atomic.Bool  // calls are granted without a limit
	fallbackDecided atomic.Int64 // calls that a fallback decided

	circuits     [request.Servers]circuit // one for each server
	openCircuits atomic.Int32             // changed under mu
	mostClients  atomic.Int64             // of a limiter, counted lately; changed under mu

	mu            sync.Mutex
	openSince     time.Time                // guarded by mu, as all below
	openCause     error                    // the failure that opened the first circuit
	pendingHealth []Health                 // not yet reported to the hook
	reporting     bool                     // a goroutine calls the hook
	locals        map[string]*localLimiter // by hash
	sweptAt       time.Time                // when idle limiters were last removed
	countedAt     time.Time                // when mostClients were counted
}

// SetLimiting turns limiting off and on.
func (g *Guard) SetLimiting(on bool) { g.limitingOff.Store(!on) }

// Off reports whether nothing is limited.
func (g *Guard) Off() bool { return g.limitingOff.Load() }

// Health returns the health as calls have found it.
func (g *Guard) Health() Health {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.health()
}

// health returns the health. Guarded by mu.
func (g *Guard) health() Health {
	h := Health{Degraded: g.openCircuits.Load() > 0, Decided: g.fallbackDecided.Load()}
	if h.Degraded {
		h.Since, h.Cause = g.openSince, g.openCause
	}
	for _, local := range g.locals {
		h.Unbooked += local.unbooked()
	}
	return h
}

// Acquire asks Redis for permits by acquire, under a policy.
func (g *Guard) Acquire(
	ctx context.Context, limiter *engine.Limiter, policy Policy, wanted engine.Want,
	acquire func(context.Context, *engine.Limiter, engine.Want) (engine.Result, error),
) (engine.Result, error) {
	v, err := call{
		guard: g, limiters: []*engine.Limiter{limiter}, permits: []int64{wanted.Permits}, policy: policy,
		askRedis: func(wanted engine.Want) ([]engine.Result, error) {
			v, err := acquire(ctx, limiter, wanted)
			return []engine.Result{v}, err
		},
	}.run(ctx, wanted)
	if len(v) == 0 {
		return engine.Result{}, err
	}
	return v[0], err
}

// AcquireAll is Group.Acquire under a policy.
func (g *Guard) AcquireAll(
	ctx context.Context, group *engine.Group, permits []int64, policy Policy, wanted engine.Want,
) ([]engine.Result, error) {
	return call{
		guard: g, limiters: group.Limiters(), permits: permits, policy: policy,
		askRedis: func(wanted engine.Want) ([]engine.Result, error) {
			return group.Acquire(ctx, permits, wanted)
		},
	}.run(ctx, wanted)
}

// KnowsAll reports whether Redis knows all grants of a limiter, as far as this Client can tell: it has not
// failed lately, and nothing is to be booked.
func (g *Guard) KnowsAll(limiter *engine.Limiter) bool {
	if c := g.circuit(limiter); c.openCause() != nil || c.returning() {
		return false
	}
	l := g.localLimiter(limiter, time.Now(), false)
	return l == nil || l.unbooked() == 0
}

// NoteLease counts permits that a lease has taken from Redis, or gives back if permits is below 0. Calls that
// the lease serves are not counted, and an outage must not begin with a second full share.
func (g *Guard) NoteLease(limiter *engine.Limiter, permits int64) {
	now := time.Now()
	l := g.localLimiter(limiter, now, false)
	switch {
	case l == nil:
	case permits < 0:
		l.uncharge(-permits)
	default:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.usedAt = now
		l.bucketOf(now).permits += permits
		if !l.learntAt.IsZero() {
			l.learnAgain(now)
		}
	}
}

// circuit returns the circuit of a limiter.
func (g *Guard) circuit(limiter *engine.Limiter) *circuit { return &g.circuits[limiter.Server()] }

// noteCircuit records that a circuit was opened or closed, and calls the hook if that
// changes the health. One goroutine at a time calls the hook, without a lock, because the
// hook may change the health again. Meanwhile changes are queued, so that the hook sees
// them in order.
func (g *Guard) noteCircuit(by int32, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	// Several circuits may be open. The health changes with the first that opens
	// and the last that closes.
	was := g.openCircuits.Load() > 0
	if g.openCircuits.Add(by); !was {
		g.openSince, g.openCause = time.Now(), why
	}
	h := g.health()
	if g.settings.Hook == nil || was == h.Degraded {
		return
	}
	g.pendingHealth = append(g.pendingHealth, h)
	// The goroutine that calls the hook also reports this change. A concurrent call could
	// overtake the first.
	if g.reporting {
		return
	}
	g.reporting = true
	defer func() { g.reporting = false }() // also if the hook panics
	for len(g.pendingHealth) > 0 {
		h, g.pendingHealth = g.pendingHealth[0], g.pendingHealth[1:]
		g.tell(h)
	}
}

// tell calls the hook. Guarded by mu, which it releases meanwhile.
func (g *Guard) tell(h Health) {
	g.mu.Unlock()
	defer g.mu.Lock()
	g.settings.Hook(h)
}
