// Package ahead decides calls without Redis: from permits that were taken ahead (leases), and by repeating
// what Redis has refused. It is the engine.Upper of internal/engine.
package ahead

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/engine"
)

// maxStates is of how many limiters an Ahead knows something: some 10 MB. If there are more, it forgets all
// that have no lease: each costs one call.
const maxStates = 10_000

// Settings are the settings of an Ahead.
type Settings struct {
	Remember time.Duration // how long refusals are remembered; 0: not at all

	// Leasable is false if leases would count wrong: they need a clock of known pace, and a record that
	// releases leave alone.
	Leasable bool

	// KnowsAll is false while Redis may not know all grants of a limiter. NoteLease is called with the
	// permits that a lease takes, and below 0 with those that it gives back.
	KnowsAll  func(*engine.Limiter) bool
	NoteLease func(l *engine.Limiter, permits int64)
}

// An Ahead is what one Client knows without asking. It has one state for each limiter.
//
// Locks are taken in this order: the mu of a leased, that of an Ahead; then those that the Guard and
// internal/back take. A queue of the engine is locked before all of them (Waits).
type Ahead struct {
	Settings
	engine *engine.Engine
	began  time.Time // the times of refusals are since then

	byHash sync.Map // of *state, by hash
	size   atomic.Int64

	mu      sync.RWMutex
	asking  pending // jobs that ask Redis; guarded by mu, as below
	closing bool    // no lease is taken any more
	closed  bool    // nor is one settled

	silence atomic.Pointer[time.Timer] // set by Close
}

// A state is what is known of one limiter.
type state struct {
	refusal atomic.Pointer[refusal] // the last one; nil if there is none to be repeated
	writes  atomic.Int64            // of this Client
	leased
}

// New returns an Ahead, and puts it on an Engine.
func New(e *engine.Engine, settings Settings) *Ahead {
	a := &Ahead{Settings: settings, engine: e, began: time.Now(), closing: !settings.Leasable}
	e.Use(a)
	return a
}

// of returns the state of a limiter, nil if there is none.
func (a *Ahead) of(hash string) *state {
	if s, met := a.byHash.Load(hash); met {
		if found, is := s.(*state); is {
			return found
		}
	}
	return nil
}

// enter returns the state of a limiter, which it makes if there is none.
func (a *Ahead) enter(l *engine.Limiter) *state {
	if s := a.of(l.Hash); s != nil {
		return s
	}
	made := &state{leased: leased{ahead: a}}
	if other, met := a.byHash.LoadOrStore(l.Hash, made); met {
		if s, is := other.(*state); is {
			return s
		}
	}
	if a.size.Add(1) > maxStates {
		a.byHash.Range(func(hash, other any) bool {
			s, is := other.(*state)
			if is && s != made && s.unused() && a.byHash.CompareAndDelete(hash, other) {
				a.size.Add(-1)
			}
			return true
		})
	}
	return made
}

// Decide decides a call without Redis, if it can: from a lease, if leases is true, or as Redis has refused
// before. It takes pointers because copying would cost a third of its time.
func (a *Ahead) Decide(l *engine.Limiter, leases bool, wanted *engine.Want, v *engine.Result) bool {
	if a.Remember == 0 && !leases {
		return false
	}
	s := a.of(l.Hash)
	return s != nil && (leases && s.take(l, wanted, v) || a.refuse(s, l, wanted, v))
}

// Acquire is Limiter.Acquire, and remembers refusals.
func (a *Ahead) Acquire(ctx context.Context, l *engine.Limiter, wanted engine.Want) (engine.Result, error) {
	if a.Remember == 0 {
		return l.Acquire(ctx, wanted)
	}
	s := a.enter(l)
	asked, writes := time.Since(a.began), s.writes.Load()
	v, err := l.Acquire(ctx, wanted)
	switch {
	case err != nil:
	case v.OK:
		s.wrote() // refused permits may return later now
	case !wanted.Waits():
		a.note(s, newRefusal(l, wanted.Permits, v), asked, writes)
	}
	return v, err
}

// Wrote implements engine.Upper: the next callers of the limiter ask Redis.
func (a *Ahead) Wrote(hash string) {
	if a.Remember == 0 {
		return
	}
	if s := a.of(hash); s != nil {
		s.wrote()
	}
}

// Waits implements engine.Upper: waiters come before leases.
func (a *Ahead) Waits(hash string) {
	if s := a.of(hash); s != nil {
		s.endLeases()
	}
}
