package otellimit

import (
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// An Option changes what New returns.
type Option interface{ apply(*config) }

type option func(*config)

func (set option) apply(c *config) { set(c) }

type config struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	policy  func(limiterName string) string
}

// WithMeterProvider sets the MeterProvider of the metrics. The default is otel.GetMeterProvider.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return option(func(c *config) { c.meters = provider })
}

// WithTracerProvider sets the TracerProvider of the spans. The default is otel.GetTracerProvider.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return option(func(c *config) { c.tracers = provider })
}

// WithPolicy sets the policy of limiters that are not from a Keyed, from their names. policy must
// return few different names, because each is a time series of every metric; an empty name means no
// policy. Many goroutines call it at once, for each call of such a limiter. The default is no policy.
func WithPolicy(policy func(limiterName string) string) Option {
	return option(func(c *config) { c.policy = policy })
}
