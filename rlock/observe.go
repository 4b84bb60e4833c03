package rlock

import (
	"context"
	"errors"
	"time"
)

// An Observer receives the calls and holds of a Client, for metrics (WithObserver). Package otellimit has
// one for OpenTelemetry.
type Observer interface {
	// ObserveLock is called once for each Lock, LockFor and TryLock before it returns, in the goroutine of
	// the caller, and once at the end of each hold, in any goroutine. It delays both, and is called by many
	// goroutines at once. ctx is that of the call, or of the hold.
	ObserveLock(ctx context.Context, o Observation)
}

// An Observation is the result of a call, or the end of a hold.
type Observation struct {
	// Name is the name of the lock before the name mapper. Metrics should not use it: there may be one lock
	// for each user.
	Name string

	// Kind is lock, fenced or fair.
	Kind string

	// Ended reports whether this is the end of a hold. Otherwise the Observation is the result of a call.
	Ended bool

	// Granted reports whether the call got the lock, and Waited how long it took. Err is its error; nil if
	// the lock was granted, or if the wait of a TryLock passed.
	Granted bool
	Waited  time.Duration
	Err     error

	// Held is how long the hold lasted, from the sending of its request. Lost reports whether it ended
	// other than by its last Unlock.
	Held time.Duration
	Lost bool
}

// WithObserver calls o for each call and each hold. The default is none.
func WithObserver(o Observer) Option { return option(func(c *Client) { c.observer = o }) }

// kind returns the kind of a lock.
func (k *keys) kind() string {
	switch {
	case k.fenced:
		return "fenced"
	case k.fair:
		return "fair"
	}
	return "lock"
}

// observeCall calls the observer, if there is one, for a call that began at start.
func (k *keys) observeCall(ctx context.Context, start time.Time, granted bool, err error) {
	if o := k.client.observer; o != nil {
		o.ObserveLock(ctx, Observation{
			Name: k.name, Kind: k.kind(), Granted: granted, Waited: time.Since(start), Err: err,
		})
	}
}

// observeEnd calls the observer, if there is one, at the end of a hold that began at since.
func (h *Hold) observeEnd(since time.Time, why error) {
	if o := h.keys.client.observer; o != nil {
		o.ObserveLock(h.ctx, Observation{
			Name: h.keys.name, Kind: h.keys.kind(), Ended: true, Held: time.Since(since),
			Lost: !errors.Is(why, context.Canceled),
		})
	}
}
