package otellimit_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/otellimit"
)

// measure returns a Client whose calls are measured, and the handler of /metrics.
func measure(rdb redis.UniversalClient) (*rratelimiter.Client, http.Handler, error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		return nil, nil, err
	}
	observer, err := otellimit.New(
		otellimit.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
	if err != nil {
		return nil, nil, err
	}
	client := rratelimiter.New(rdb, rratelimiter.WithObserver(observer))
	observer.Watch(client)
	return client, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}

// kindOf returns the policy of a limiter that is not from a Keyed: "user" for "user:alice".
func kindOf(limiterName string) string {
	kind, _, found := strings.Cut(limiterName, ":")
	if !found {
		return ""
	}
	return kind
}

func Example() {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	client, metrics, err := measure(rdb)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	w := httptest.NewRecorder()
	metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text, err := io.ReadAll(w.Body)
	if err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "# TYPE rratelimiter_") {
			fmt.Print(line)
		}
	}
	// Output:
	// # TYPE rratelimiter_degraded_clients gauge
	// # TYPE rratelimiter_queued_requests gauge
	// # TYPE rratelimiter_unbooked_permits gauge
}

func ExampleObserver_Observe() {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		log.Fatal(err)
	}
	observer, err := otellimit.New(otellimit.WithPolicy(kindOf),
		otellimit.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
	if err != nil {
		log.Fatal(err)
	}
	for _, left := range []int64{9, 3, 0} {
		observer.Observe(context.Background(), rratelimiter.Observation{ // as a Client does
			Policy: "user", Permits: 3, Took: time.Millisecond,
			Result: rratelimiter.Result{Allowed: left > 0, Limit: 12, Remaining: left},
		})
	}
	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if c := m.GetCounter(); c != nil {
				fmt.Print(family.GetName(), " ", c.GetValue())
				for _, label := range m.GetLabel() {
					fmt.Print(" ", label.GetName(), "=", label.GetValue())
				}
				fmt.Println()
			}
		}
	}
	// Output:
	// rratelimiter_permits_total 6 policy=user
	// rratelimiter_requests_total 2 policy=user result=granted
	// rratelimiter_requests_total 1 policy=user result=refused
}
