package otellimit

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/rlock"
)

var _ rlock.Observer = (*Observer)(nil)

// kindKey is the attribute of a lock: lock, fenced or fair.
const kindKey = attribute.Key("kind")

// lockInstruments are what an Observer measures locks with.
type lockInstruments struct {
	waited metric.Float64Histogram
	held   metric.Float64Histogram
	lost   metric.Int64Counter
}

func newLockInstruments(b *builder) lockInstruments {
	return lockInstruments{
		waited: b.seconds("rratelimiter.lock.wait_duration",
			"The time that calls for a lock took, by what they came to."),
		held: b.seconds("rratelimiter.lock.hold_duration",
			"The time that locks were held."),
		lost: b.counter("rratelimiter.lock.lost_holds", "{hold}",
			"Holds that ended otherwise than by an unlock."),
	}
}

// ObserveLock measures a call for a lock, or the end of a hold, for rlock.WithObserver. Names of locks are
// not passed on.
func (o *Observer) ObserveLock(ctx context.Context, seen rlock.Observation) {
	kind := kindKey.String(seen.Kind)
	if !seen.Ended {
		o.locks.waited.Record(ctx, seen.Waited.Seconds(),
			metric.WithAttributes(kind, resultKey.String(lockResult(&seen))))
		return
	}
	o.locks.held.Record(ctx, seen.Held.Seconds(), metric.WithAttributes(kind))
	if seen.Lost {
		o.locks.lost.Add(ctx, 1, metric.WithAttributes(kind))
	}
}

// lockResult returns what a call for a lock came to, in the words of calls for permits.
func lockResult(seen *rlock.Observation) string {
	switch {
	case seen.Granted:
		return granted.String()
	case seen.Err == nil:
		return refused.String()
	case errors.Is(seen.Err, rlock.ErrLost):
		return "lost"
	}
	what := resultOf(&rratelimiter.Observation{Err: seen.Err})
	return what.String()
}
