package otellimit_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

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

// A logger is an Observer for operators. It does not log granted calls: there are too many.
type logger struct{ log *slog.Logger }

func (l logger) Observe(ctx context.Context, o rratelimiter.Observation) {
	level, text := slog.LevelDebug, "refused"
	switch {
	case o.Err != nil:
		level, text = slog.LevelError, "failed"
	case o.Result.Degraded:
		level, text = slog.LevelWarn, "decided without Redis"
	case o.RateReplaced:
		level, text = slog.LevelWarn, "replaced another rate"
	case o.Result.Allowed:
		return
	}
	l.log.LogAttrs(ctx, level, text, slog.String("policy", o.Policy), slog.Int64("permits", o.Permits),
		slog.Duration("took", o.Took), slog.Any("error", o.Err))
}

func ExampleObserver_log() {
	handler := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: slog.LevelWarn,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr { // the time differs in each run
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})
	observer := logger{slog.New(handler)}
	for _, o := range []rratelimiter.Observation{ // as a Client does
		{Policy: "user", Permits: 1, Result: rratelimiter.Result{Allowed: true}},
		{Policy: "user", Permits: 1, Result: rratelimiter.Result{Allowed: true, Degraded: true}},
		{Policy: "user", Permits: 1, Result: rratelimiter.Result{Allowed: true}, RateReplaced: true},
		{Policy: "user", Permits: 1, Err: rratelimiter.ErrNoAnswer, Took: time.Second},
	} {
		observer.Observe(context.Background(), o)
	}
	// Output:
	// level=WARN msg="decided without Redis" policy=user permits=1 took=0s error=<nil>
	// level=WARN msg="replaced another rate" policy=user permits=1 took=0s error=<nil>
	// level=ERROR msg=failed policy=user permits=1 took=1s error="rratelimiter: no answer from Redis"
}
