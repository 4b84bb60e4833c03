package otellimit_test

import (
	"context"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/redisson-go/rratelimiter/otellimit"
)

// cases are a call as most are, and one that has everything but a wait, for that has a
// span.
var cases = map[string]observation{
	"granted": {
		Policy: "user", Permits: 1, Result: numbers{Allowed: true, Limit: 100, Remaining: 90},
		Took: time.Millisecond, Batch: 1,
	},
	"refused": {Policy: "user", Permits: 1, Result: numbers{Limit: 100}, Took: time.Millisecond, Batch: 1},
	"everything": {
		Policy: "user", Permits: 1, Result: numbers{Allowed: true, Limit: 100},
		Took: time.Millisecond, Batch: 8, Drift: 2,
	},
}

func observer(t testing.TB) *otellimit.Observer {
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	o, err := otellimit.New(otellimit.WithMeterProvider(meters),
		otellimit.WithTracerProvider(sdktrace.NewTracerProvider()))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func BenchmarkObserve(b *testing.B) {
	for name, seen := range cases {
		b.Run(name, func(b *testing.B) {
			o := observer(b)
			b.ReportAllocs()
			for b.Loop() {
				o.Observe(context.Background(), seen)
			}
		})
	}
}

func BenchmarkObserveParallel(b *testing.B) {
	o, seen := observer(b), cases["granted"]
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			o.Observe(context.Background(), seen)
		}
	})
}

// A call that did not wait costs no memory: its attributes are made once.
func TestObserveAllocatesNothing(t *testing.T) {
	for name, seen := range cases {
		o := observer(t)
		if got := testing.AllocsPerRun(100, func() { o.Observe(context.Background(), seen) }); got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}
