package otellimit

import (
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// An Option is an option of New.
type Option interface{ apply(*config) }

type option func(*config)

func (set option) apply(c *config) { set(c) }

type config struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	policy  func(limiterName string) string
}

// WithMeterProvider has the metrics made by provider. The default is that of
// otel.GetMeterProvider.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return option(func(c *config) { c.meters = provider })
}

// WithTracerProvider has the spans made by provider. The default is that of
// otel.GetTracerProvider.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return option(func(c *config) { c.tracers = provider })
}

// WithPolicy names the policy of limiters that are not from a Keyed, by their name.
// It returns few different names: each is a time series of every metric. An empty one is
// no policy. It is called for each call of such a limiter, by many goroutines at once.
// The default is no policy.
func WithPolicy(policy func(limiterName string) string) Option {
	return option(func(c *config) { c.policy = policy })
}
