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

// exposed returns the names of the metrics that Prometheus reads from an Observer that
// has measured everything, and the type of each.
func exposed(t *testing.T) map[string]string {
	t.Helper()
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	noError(t, err)
	observer, err := otellimit.New(
		otellimit.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
	noError(t, err)
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

// A board is what the test reads of grafana.json.
type board struct {
	Panels []struct {
		ID          int
		Title, Type string
		Description string
		GridPos     struct{ H, W, X, Y int }
		Targets     []struct{ RefID, Expr, LegendFormat string }
	}
	Templating struct {
		List []struct{ Name, Definition string }
	}
}

func readBoard(t *testing.T) (b board, text []byte) {
	t.Helper()
	text, err := os.ReadFile("grafana.json")
	noError(t, err)
	noError(t, json.Unmarshal(text, &b))
	return b, text
}

// asked returns the metrics of an expression. types has those that there are.
func asked(t *testing.T, where, expr string, types map[string]string) (names []string) {
	t.Helper()
	names = regexp.MustCompile(`rratelimiter_\w+`).FindAllString(expr, -1)
	if len(names) == 0 {
		t.Errorf("%s asks for no metric: %q", where, expr)
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
			t.Errorf("%s asks for %s, which there is not", where, name)
		case "gauge":
		default:
			if !rated && !strings.HasPrefix(expr, "label_values(") {
				t.Errorf("%s has %s, which only grows, without its rate", where, name)
			}
		}
	}
	return names
}

// The board asks for metrics that there are, and for all of them: a metric with another
// name breaks it here, and not on the day when it is needed.
func TestGrafanaBoardKnowsTheMetrics(t *testing.T) {
	b, _ := readBoard(t)
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
		if strings.HasPrefix(name, "rratelimiter_") && !used[name] {
			t.Errorf("%s is on no panel", name)
		}
	}
	if len(used) != 15 {
		t.Errorf("%d metrics on the board, want all 15", len(used))
	}
}

// Grafana can show the board: panels have an id and a place of their own, and variables
// that are used are there.
func TestGrafanaBoardIsWhole(t *testing.T) {
	b, text := readBoard(t)
	ids, places := map[int]bool{}, map[[2]int]bool{}
	for _, p := range b.Panels {
		at := [2]int{p.GridPos.X, p.GridPos.Y}
		if p.Title == "" || p.Type == "" || p.Description == "" || p.GridPos.W == 0 || len(p.Targets) == 0 {
			t.Errorf("panel %d, %q, is incomplete", p.ID, p.Title)
		}
		if ids[p.ID] || places[at] {
			t.Errorf("panel %d at %v is there twice", p.ID, at)
		}
		ids[p.ID], places[at] = true, true
	}
	variables := map[string]bool{"__rate_interval": true, "__all": true} // Grafana's own
	for _, v := range b.Templating.List {
		variables[v.Name] = true
	}
	found := regexp.MustCompile(`\$\{?(\w+)`).FindAllSubmatch(text, -1)
	for _, match := range found {
		if name := string(match[1]); !variables[name] {
			t.Errorf("there is no variable %s", name)
		}
	}
	if len(b.Panels) == 0 || len(found) == 0 {
		t.Errorf("%d panels, %d uses of variables", len(b.Panels), len(found))
	}
}

// The page names each metric as Prometheus has it.
func TestDocsNameTheMetrics(t *testing.T) {
	page, err := os.ReadFile("../docs/metrics.md")
	noError(t, err)
	for name := range exposed(t) {
		if strings.HasPrefix(name, "rratelimiter_") && !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/metrics.md does not name %s", name)
		}
	}
}
