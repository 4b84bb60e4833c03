package otellimit_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/otellimit"
	"github.com/redisson-go/rratelimiter/rlock"
)

// exposed returns the types of the metrics by their names in Prometheus, from an Observer that has
// measured everything.
func exposed(t *testing.T) map[string]string {
	t.Helper()
	registry := prometheus.NewRegistry()
	reader := redistest.Must(exporter.New(exporter.WithRegisterer(registry)))(t)
	meters := otellimit.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	observer := redistest.Must(otellimit.New(meters))(t)
	client := rratelimiter.New(redistest.MiniClient(t, redistest.Mini(t)))
	defer client.Close()
	observer.Watch(client)
	seen := everything
	seen.Result.Degraded = true
	for _, o := range []rratelimiter.Observation{everything, seen} {
		observer.Observe(context.Background(), o)
	}
	observer.ObserveLock(context.Background(), rlock.Observation{Kind: "lock", Granted: true})
	observer.ObserveLock(context.Background(), rlock.Observation{Kind: "lock", Ended: true, Lost: true})

	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).
		ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	types := map[string]string{}
	for lines := bufio.NewScanner(w.Body); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) == 4 && fields[1] == "TYPE" {
			types[fields[2]] = fields[3]
		}
	}
	return types
}

// asked returns the metrics of an expression, and checks that types has them.
func asked(t *testing.T, where, expr string, types map[string]string) (names []string) {
	t.Helper()
	names = regexp.MustCompile(`rratelimiter_\w+`).FindAllString(expr, -1)
	if len(names) == 0 {
		t.Errorf("%s has no metric: %q", where, expr)
	}
	for i, name := range names {
		rated := strings.Count(expr, name) == strings.Count(expr, "rate("+name)
		family := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		if types[family] == "histogram" {
			name = family
		}
		names[i] = name
		switch types[name] {
		case "":
			t.Errorf("%s has %s, which does not exist", where, name)
		case "gauge":
		default:
			if !rated && !strings.HasPrefix(expr, "label_values(") {
				t.Errorf("%s has the counter %s without its rate", where, name)
			}
		}
	}
	return names
}

// The dashboard has all metrics and no others, so that a metric that is renamed fails here and not
// during an incident, and docs/metrics.md names them.
func TestGrafanaDashboardHasAllMetrics(t *testing.T) {
	var b struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	redistest.NoError(t, json.Unmarshal(redistest.Must(os.ReadFile("grafana.json"))(t), &b))
	page := redistest.Must(os.ReadFile("../docs/metrics.md"))(t)
	types, used := exposed(t), map[string]bool{}
	for _, p := range b.Panels {
		for _, target := range p.Targets {
			for _, name := range asked(t, p.Title, target.Expr, types) {
				used[name] = true
			}
		}
	}
	for _, v := range b.Templating.List {
		if v.Definition != "" {
			asked(t, "variable "+v.Name, v.Definition, types)
		}
	}
	for name := range types {
		documented := strings.Contains(string(page), "`"+name+"`")
		if strings.HasPrefix(name, "rratelimiter_") && !(used[name] && documented) {
			t.Errorf("%s is on a panel: %v, in docs/metrics.md: %v", name, used[name], documented)
		}
	}
	if len(used) != 16 {
		t.Errorf("%d metrics on the dashboard, want all 16", len(used))
	}
}
