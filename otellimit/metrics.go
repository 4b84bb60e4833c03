package otellimit

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// instruments are the metrics of an Observer.
type instruments struct {
	requests    metric.Int64Counter
	duration    metric.Float64Histogram
	timeInQueue metric.Float64Histogram
	batchSize   metric.Int64Histogram
	permits     metric.Int64Counter
	nearLimit   metric.Int64Counter
	degraded    metric.Int64Counter
	healedDrift metric.Int64Counter
	otherRate   metric.Int64Counter
	replaced    metric.Int64Counter

	lockWaited metric.Float64Histogram
	lockHeld   metric.Float64Histogram
	lockLost   metric.Int64Counter

	queued          metric.Int64ObservableUpDownCounter
	degradedClients metric.Int64ObservableUpDownCounter
	unbooked        metric.Int64ObservableUpDownCounter
}

// The bounds of the histograms, which a view may change. secondsBounds are those of ASP.NET Core for
// short times, so that its dashboards fit.
var (
	secondsBounds = []float64{
		0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
	}
	briefBounds = []float64{
		0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5,
	}
	batchBounds = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}
)

// A builder makes instruments and collects their errors.
type builder struct {
	meter metric.Meter
	errs  []error
}

func (b *builder) counter(name, unit, description string) metric.Int64Counter {
	made, err := b.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
	b.errs = append(b.errs, err)
	return made
}

func (b *builder) seconds(name, description string, bounds []float64) metric.Float64Histogram {
	made, err := b.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
		metric.WithExplicitBucketBoundaries(bounds...))
	b.errs = append(b.errs, err)
	return made
}

func (b *builder) state(name, unit, description string) metric.Int64ObservableUpDownCounter {
	made, err := b.meter.Int64ObservableUpDownCounter(name,
		metric.WithUnit(unit), metric.WithDescription(description))
	b.errs = append(b.errs, err)
	return made
}

func newInstruments(meter metric.Meter) (instruments, error) {
	b := &builder{meter: meter}
	batchSize, err := meter.Int64Histogram("rratelimiter.request.batch_size",
		metric.WithUnit("{request}"),
		metric.WithDescription("Requests that one script call decided, counted by each of them."),
		metric.WithExplicitBucketBoundaries(batchBounds...))
	b.errs = append(b.errs, err)
	all := instruments{
		requests: b.counter("rratelimiter.requests", "{request}",
			"Requests for permits, by result."),
		duration: b.seconds("rratelimiter.request.duration",
			"The time that requests took, without waiting for permits.", briefBounds),
		timeInQueue: b.seconds("rratelimiter.request.time_in_queue",
			"The time that requests waited for permits, if they waited.", secondsBounds),
		batchSize: batchSize,
		permits: b.counter("rratelimiter.permits", "{permit}",
			"Permits that were granted or charged."),
		nearLimit: b.counter("rratelimiter.near_limit_requests", "{request}",
			"Granted requests after which 80 % or more of the limit was used."),
		degraded: b.counter("rratelimiter.degraded_requests", "{request}",
			"Requests that were decided without Redis."),
		healedDrift: b.counter("rratelimiter.healed_drift", "{permit}",
			"Permits, too many or too few, by which wrong values in Redis were corrected."),
		otherRate: b.counter("rratelimiter.limits_with_other_rate", "{limit}",
			"Limits of the program that found a limiter with another rate or interval, and keep it."),
		replaced: b.counter("rratelimiter.replaced_rates", "{rate}",
			"Rates in Redis that were replaced by another one of the program."),
		lockWaited: b.seconds("rratelimiter.lock.wait_duration",
			"The time that calls for a lock took, by result.", secondsBounds),
		lockHeld: b.seconds("rratelimiter.lock.hold_duration",
			"The time that locks were held.", secondsBounds),
		lockLost: b.counter("rratelimiter.lock.lost_holds", "{hold}",
			"Holds that ended without an unlock."),
		queued: b.state("rratelimiter.queued_requests", "{request}",
			"Requests that wait for permits now."),
		degradedClients: b.state("rratelimiter.degraded_clients", "{client}",
			"Clients that work without their Redis now."),
		unbooked: b.state("rratelimiter.unbooked_permits", "{permit}",
			"Permits granted without Redis and not booked there yet."),
	}
	return all, errors.Join(b.errs...)
}
