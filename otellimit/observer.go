package otellimit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/rlock"
)

// scope is the name of the meter and the tracer.
const scope = "github.com/redisson-go/rratelimiter/otellimit"

// An Observer counts and measures the results of calls, for rratelimiter.WithObserver. One Observer is enough
// for all Clients of a process. It is safe for concurrent use, starts no goroutine, and lives as long as its
// MeterProvider.
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
		opt(&c)
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

var _ rlock.Observer = (*Observer)(nil)

// kindKey is the attribute of a lock: lock, fenced or fair.
const kindKey = attribute.Key("kind")

// ObserveLock measures a call for a lock, or the end of a hold, for rlock.WithObserver. It does not
// report names of locks.
func (o *Observer) ObserveLock(ctx context.Context, seen rlock.Observation) {
	kind := kindKey.String(seen.Kind)
	if !seen.Ended {
		o.lockWaited.Record(ctx, seen.Waited.Seconds(),
			metric.WithAttributes(kind, resultKey.String(lockResult(&seen))))
		return
	}
	o.lockHeld.Record(ctx, seen.Held.Seconds(), metric.WithAttributes(kind))
	if seen.Lost {
		o.lockLost.Add(ctx, 1, metric.WithAttributes(kind))
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

// An Option changes what New returns.
type Option func(*config)

type config struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	policy  func(limiterName string) string
}

// WithMeterProvider sets the MeterProvider of the metrics. The default is otel.GetMeterProvider.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return func(c *config) { c.meters = provider }
}

// WithTracerProvider sets the TracerProvider of the spans. The default is otel.GetTracerProvider.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return func(c *config) { c.tracers = provider }
}

// WithPolicy sets the policy of limiters that are not from a Keyed, from their names. policy must
// return few different names, because each is a time series of every metric; an empty name means no
// policy. Many goroutines call it at once, for each call of such a limiter. The default is no policy.
func WithPolicy(policy func(limiterName string) string) Option {
	return func(c *config) { c.policy = policy }
}

// watched counts the watches of each Client.
type watched struct {
	mu      sync.Mutex
	clients map[*rratelimiter.Client]int // guarded by mu
}

// Watch adds the state of client to the metrics: the waiting requests (Client.Waiting), whether it
// works without Redis, and the unbooked permits (Client.Health). The state is read when metrics are
// collected, without calling Redis. The metrics are sums over all watched Clients. stop ends the
// watch, and may be called more than once.
func (o *Observer) Watch(client *rratelimiter.Client) (stop func()) {
	w := &o.watched
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.clients == nil {
		w.clients = map[*rratelimiter.Client]int{}
	}
	w.clients[client]++
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.clients[client]--; w.clients[client] == 0 {
			delete(w.clients, client)
		}
	})
}

// collect measures the watched Clients. Without any there is no value, which differs from 0.
func (o *Observer) collect(_ context.Context, to metric.Observer) error {
	o.watched.mu.Lock()
	clients := slices.Collect(maps.Keys(o.watched.clients))
	o.watched.mu.Unlock()
	if len(clients) == 0 {
		return nil
	}
	var queued, degraded, unbooked int64
	for _, client := range clients {
		queued += int64(client.Waiting())
		health := client.Health()
		unbooked += health.Unbooked
		if health.Degraded {
			degraded++
		}
	}
	to.ObserveInt64(o.queued, queued)
	to.ObserveInt64(o.degradedClients, degraded)
	to.ObserveInt64(o.unbooked, unbooked)
	return nil
}
