package otellimit_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/redisson-go/rratelimiter/otellimit"
)

// A rig is an Observer with an SDK that keeps what it is told.
type rig struct {
	*otellimit.Observer
	reader *sdkmetric.ManualReader
	spans  *tracetest.InMemoryExporter
	tracer *sdktrace.TracerProvider
}

func newRig(t *testing.T, opts ...otellimit.Option) *rig {
	t.Helper()
	r := &rig{reader: sdkmetric.NewManualReader(), spans: tracetest.NewInMemoryExporter()}
	r.tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(r.spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.reader))
	observer, err := otellimit.New(append([]otellimit.Option{
		otellimit.WithMeterProvider(meters), otellimit.WithTracerProvider(r.tracer),
	}, opts...)...)
	noError(t, err)
	r.Observer = observer
	return r
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// collect returns all metrics, by name.
func (r *rig) collect(t *testing.T) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	noError(t, r.reader.Collect(t.Context(), &all))
	found := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			found[m.Name] = m
		}
	}
	return found
}

// measured returns every value of every metric, as "name{attributes}": of a histogram its
// count and its sum.
func (r *rig) measured(t *testing.T) map[string]string {
	t.Helper()
	values := map[string]string{}
	for name, m := range r.collect(t) {
		series := func(set attribute.Set) string {
			return name + "{" + set.Encoded(attribute.DefaultEncoder()) + "}"
		}
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				values[series(p.Attributes)] = fmt.Sprint(p.Value)
			}
		case metricdata.Histogram[int64]:
			for _, p := range data.DataPoints {
				values[series(p.Attributes)] = fmt.Sprintf("%d of %d", p.Count, p.Sum)
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				values[series(p.Attributes)] = fmt.Sprintf("%d of %v", p.Count, p.Sum)
			}
		default:
			t.Fatalf("%s is a %T", name, data)
		}
	}
	return values
}

// want checks everything that was measured, as lines of "name{attributes} value". Each request has a
// duration, which is left out where it took no time.
func (r *rig) want(t *testing.T, want string) {
	t.Helper()
	values := r.measured(t)
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		duration := strings.HasPrefix(name, "rratelimiter.request.duration{")
		brief := duration && strings.HasSuffix(values[name], " of 0")
		if !brief {
			lines = append(lines, name+" "+values[name])
		}
	}
	got := strings.Join(lines, "\n")
	if want = strings.TrimSpace(strings.ReplaceAll(want, "\t", "")); got != want {
		t.Errorf("measured:\n%s\n\nwant:\n%s", got, want)
	}
}
