package otellimit

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/redisson-go/rratelimiter"
)

// scope is the name of the meter and the tracer.
const scope = "github.com/redisson-go/rratelimiter/otellimit"

// An Observer counts and measures what calls came to, for rratelimiter.WithObserver. One
// is enough for all Clients of a process. It is safe for concurrent use, has no goroutine,
// and lives as long as its MeterProvider.
type Observer struct {
	instruments
	tracer  trace.Tracer
	policy  func(limiterName string) string // nil: limiters without a Keyed have none
	catalog catalog
	watched watched
}

var _ rratelimiter.Observer = (*Observer)(nil)

// New returns an Observer. An error is one of the MeterProvider's, as for a name that is
// taken by another kind of instrument.
func New(opts ...Option) (*Observer, error) {
	c := config{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for _, opt := range opts {
		opt.apply(&c)
	}
	meter := c.meters.Meter(scope)
	made, err := newInstruments(meter)
	if err != nil {
		return nil, fmt.Errorf("otellimit: %w", err)
	}
	o := &Observer{instruments: made, tracer: c.tracers.Tracer(scope), policy: c.policy}
	o.catalog.known.Store(&map[string]*series{})
	if _, err := meter.RegisterCallback(o.collect, o.queued, o.degradedClients, o.unbooked); err != nil {
		return nil, fmt.Errorf("otellimit: %w", err)
	}
	return o, nil
}

// Observe counts a call, and makes a span of one that waited: rratelimiter.acquire, from
// the beginning of the call to its end, with policy, result and permits, a child of the
// span in ctx. Its status is Error with the result if the call has an error other than
// that it was canceled. The text of an error, which names the limiter, is not passed on.
func (o *Observer) Observe(ctx context.Context, seen rratelimiter.Observation) {
	what := resultOf(&seen)
	policy := o.catalog.of(o.policyOf(&seen))
	byResult := &policy.results[what]
	o.requests.Add(ctx, 1, byResult.add...)
	o.duration.Record(ctx, (seen.Took - seen.Queued).Seconds(), byResult.record...)
	if seen.Queued > 0 {
		o.timeInQueue.Record(ctx, seen.Queued.Seconds(), byResult.record...)
		o.span(ctx, &seen, what, byResult)
	}
	if seen.Batch > 0 {
		o.batchSize.Record(ctx, int64(seen.Batch), policy.record...)
	}
	if what == granted {
		o.permits.Add(ctx, seen.Permits, policy.add...)
	}
	if what == granted && isNear(&seen) {
		o.nearLimit.Add(ctx, 1, policy.add...)
	}
	if seen.Result.Degraded {
		o.degraded.Add(ctx, 1, policy.add...)
	}
	if seen.Drift != 0 {
		o.healedDrift.Add(ctx, max(seen.Drift, -seen.Drift), policy.add...)
	}
	if seen.OtherRate {
		o.otherRate.Add(ctx, 1, policy.add...)
	}
}

// policyOf returns the policy of a limiter: that of its Keyed, or what WithPolicy makes
// of its name.
func (o *Observer) policyOf(seen *rratelimiter.Observation) string {
	if seen.Policy != "" || o.policy == nil {
		return seen.Policy
	}
	return o.policy(seen.Result.Name)
}

// nearTenths is how many tenths of a limit are near it; Envoy's near_limit has the same.
const nearTenths = 8

// isNear reports whether a granted call has left little of its limit. Only Allow has the
// numbers, and without Redis they are those of one Client.
func isNear(seen *rratelimiter.Observation) bool {
	r := &seen.Result
	return r.Limit > 0 && !r.Degraded && (r.Limit-r.Remaining)*10 >= r.Limit*nearTenths
}

// span makes the span of a call that waited, which is over.
func (o *Observer) span(ctx context.Context, seen *rratelimiter.Observation, what result, of *attributes) {
	_, span := o.tracer.Start(ctx, "rratelimiter.acquire", trace.WithTimestamp(seen.Start),
		trace.WithAttributes(of.all...), trace.WithAttributes(permitsKey.Int64(seen.Permits)))
	if seen.Err != nil && what != canceled {
		span.SetStatus(codes.Error, what.String())
	}
	span.End(trace.WithTimestamp(seen.Start.Add(seen.Took)))
}
