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

// lockInstruments are the metrics of locks.
type lockInstruments struct {
	waited metric.Float64Histogram
	held   metric.Float64Histogram
	lost   metric.Int64Counter
}

func newLockInstruments(b *builder) lockInstruments {
	return lockInstruments{
		waited: b.seconds("rratelimiter.lock.wait_duration",
			"The time that calls for a lock took, by result.", secondsBounds),
		held: b.seconds("rratelimiter.lock.hold_duration",
			"The time that locks were held.", secondsBounds),
		lost: b.counter("rratelimiter.lock.lost_holds", "{hold}",
			"Holds that ended without an unlock."),
	}
}

// ObserveLock measures a call for a lock, or the end of a hold, for rlock.WithObserver. It does not
// report names of locks.
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

// lockResult returns the result of a call for a lock, in the words of calls for permits.
func lockResult(seen *rlock.Observation) string {
	switch {
	case seen.Granted:
		return granted.String()
	case seen.Err == nil:
		return refused.String()
	case errors.Is(seen.Err, rlock.ErrLost):
		return "lost"
	}
	return resultOf(&rratelimiter.Observation{Err: seen.Err}).String()
}
