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

// An Observer counts and measures the results of calls, for rratelimiter.WithObserver. One Observer is
// enough for all Clients of a process. It is safe for concurrent use, has no goroutine, and lives as
// long as its MeterProvider.
type Observer struct {
	instruments
	tracer  trace.Tracer
	policy  func(limiterName string) string // nil: limiters without a Keyed have none
	catalog catalog
	watched watched
}

var _ rratelimiter.Observer = (*Observer)(nil)

// New returns an Observer. The error is that of the MeterProvider, for example if a name is taken by
// another kind of instrument.
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
	o.catalog.byPolicy.Store(&map[string]*series{})
	if _, err := meter.RegisterCallback(o.collect, o.queued, o.degradedClients, o.unbooked); err != nil {
		return nil, fmt.Errorf("otellimit: %w", err)
	}
	return o, nil
}

// Observe counts a call. If the call waited, Observe also makes a span: rratelimiter.acquire, from the
// beginning of the call to its end, with policy, result and permits, a child of the span in ctx. Its
// status is Error with the result if the call failed, unless it was canceled. The text of an error is
// not reported, because it names the limiter.
func (o *Observer) Observe(ctx context.Context, seen rratelimiter.Observation) {
	of := resultOf(&seen)
	policy := o.catalog.of(o.policyOf(&seen))
	byResult := &policy.results[of]
	o.requests.Add(ctx, 1, byResult.add...)
	o.duration.Record(ctx, (seen.Took - seen.Queued).Seconds(), byResult.record...)
	if seen.Queued > 0 {
		o.timeInQueue.Record(ctx, seen.Queued.Seconds(), byResult.record...)
		o.span(ctx, &seen, of, byResult)
	}
	if seen.Batch > 0 {
		o.batchSize.Record(ctx, int64(seen.Batch), policy.record...)
	}
	if of == granted {
		o.permits.Add(ctx, seen.Permits, policy.add...)
	}
	if of == granted && isNear(&seen) {
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
	if seen.RateReplaced {
		o.replaced.Add(ctx, 1, policy.add...)
	}
}

// policyOf returns the policy of a limiter: that of its Keyed, or that of WithPolicy for its name.
func (o *Observer) policyOf(seen *rratelimiter.Observation) string {
	if seen.Policy != "" || o.policy == nil {
		return seen.Policy
	}
	return o.policy(seen.Result.Name)
}

// nearTenths is the used share from which a limit is near, in tenths. Envoy's near_limit has the same.
const nearTenths = 8

// isNear reports whether little is left of the limit of a granted call. Only Allow has the numbers, and
// without Redis they are those of one Client.
func isNear(seen *rratelimiter.Observation) bool {
	r := &seen.Result
	return r.Limit > 0 && !r.Degraded && (r.Limit-r.Remaining)*10 >= r.Limit*nearTenths
}

// span makes the span of a call that waited and has ended.
func (o *Observer) span(ctx context.Context, seen *rratelimiter.Observation, result result, of *attributes) {
	_, span := o.tracer.Start(ctx, "rratelimiter.acquire", trace.WithTimestamp(seen.Start),
		trace.WithAttributes(of.all...), trace.WithAttributes(permitsKey.Int64(seen.Permits)))
	if seen.Err != nil && result != canceled {
		span.SetStatus(codes.Error, result.String())
	}
	span.End(trace.WithTimestamp(seen.Start.Add(seen.Took)))
}
