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
	"go.uber.org/goleak"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/otellimit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A rig is an Observer with an SDK in memory.
type rig struct {
	*otellimit.Observer
	reader *sdkmetric.ManualReader
	spans  *tracetest.InMemoryExporter
	tracer *sdktrace.TracerProvider
}

func newRig(t testing.TB, opts ...otellimit.Option) *rig {
	t.Helper()
	r := &rig{reader: sdkmetric.NewManualReader(), spans: tracetest.NewInMemoryExporter()}
	r.tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(r.spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.reader))
	r.Observer = redistest.Must(otellimit.New(append([]otellimit.Option{
		otellimit.WithMeterProvider(meters), otellimit.WithTracerProvider(r.tracer),
	}, opts...)...))(t)
	return r
}

func (r *rig) collect(t *testing.T) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	redistest.NoError(t, r.reader.Collect(t.Context(), &all))
	found := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			found[m.Name] = m
		}
	}
	return found
}

// measured returns all values of all metrics by "name{attributes}"; the value of a histogram is "count
// of sum".
func (r *rig) measured(t *testing.T) map[string]string {
	t.Helper()
	values := map[string]string{}
	for name, m := range r.collect(t) {
		set := func(attributes attribute.Set, value ...any) {
			encoded := attributes.Encoded(attribute.DefaultEncoder())
			values[name+"{"+encoded+"}"] = strings.TrimSpace(fmt.Sprintln(value...))
		}
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				set(p.Attributes, p.Value)
			}
		case metricdata.Histogram[int64]:
			for _, p := range data.DataPoints {
				set(p.Attributes, p.Count, "of", p.Sum)
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				set(p.Attributes, p.Count, "of", p.Sum)
			}
		default:
			t.Fatalf("%s is a %T", name, data)
		}
	}
	return values
}

// want checks all metrics, as lines of "name{attributes} value", except durations of 0.
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
