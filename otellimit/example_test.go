package otellimit_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

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
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()
	client, metrics, err := measure(rdb)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	w := httptest.NewRecorder()
	metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "# TYPE rratelimiter_") {
			fmt.Print(line)
		}
	}
	// Output:
	// # TYPE rratelimiter_degraded_clients gauge
	// # TYPE rratelimiter_queued_requests gauge
	// # TYPE rratelimiter_unbooked_permits gauge
}
