package rls

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// mostPaths and longestPath bound the paths with their own metrics, in number and in bytes. A path can
// have values of requests (detailed_metric), which visitors choose.
const (
	mostPaths   = 10_000
	longestPath = 256
)

// meters are the metrics of a Service, named as the reference service names them in Prometheus.
type meters struct {
	registry *prometheus.Registry

	hits, over, near, within, shadow *prometheus.CounterVec
	errors                           *prometheus.CounterVec
	loads, badLoads                  prometheus.Counter
	unknownDomains, globalShadow     prometheus.Counter
	degraded                         prometheus.Counter
	requests                         prometheus.Counter
	seconds                          prometheus.Observer

	mu    sync.RWMutex
	paths map[place]*metrics // guarded by mu; one more for each domain than mostPaths
}

// A place is a path of keys and the domain it begins with: both may have dots.
type place struct{ domain, path string }

// metrics are those of a path of keys.
type metrics struct {
	hits, over, near, within, shadow prometheus.Counter
}

func newMeters() *meters {
	m := &meters{registry: prometheus.NewRegistry(), paths: make(map[place]*metrics)}
	of := func(name, help string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ratelimit_service_rate_limit_" + name, Help: help,
		}, []string{"domain", "key1", "key2"})
		m.registry.MustRegister(v)
		return v
	}
	one := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "ratelimit_service_" + name, Help: help})
		m.registry.MustRegister(c)
		return c
	}
	m.hits = of("total_hits", "Hits that a limit was asked for.")
	m.over = of("over_limit", "Hits that were over the limit.")
	m.near = of("near_limit", "Hits that were granted near the limit.")
	m.within = of("within_limit", "Hits that were granted.")
	m.shadow = of("shadow_mode", "Hits that were over the limit and passed by shadow_mode.")
	m.loads = one("config_load_success", "Configurations that were loaded.")
	m.badLoads = one("config_load_error", "Configurations that were refused.")
	m.unknownDomains = one("domain_not_found", "Descriptors of a domain without configuration.")
	m.globalShadow = one("global_shadow_mode", "Requests over a limit that passed by SHADOW_MODE.")
	m.degraded = one("degraded", "Descriptors that were decided without Redis.")
	method := prometheus.Labels{"grpc_method": "ShouldRateLimit"}
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ratelimit_service_total_requests", Help: "Requests, by gRPC or HTTP.",
	}, []string{"grpc_method"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "ratelimit_service_response_time_seconds", Help: "Time of a request.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .015, .02, .05, .1, .5},
	}, []string{"grpc_method"})
	m.errors = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ratelimit_service_should_rate_limit_error", Help: "Requests that got an error.",
	}, []string{"err_type"})
	m.registry.MustRegister(requests, seconds, m.errors)
	m.requests, m.seconds = requests.With(method), seconds.With(method)
	return m
}

// of returns the metrics of a path. The end of a long path is cut off, and when there are too many paths, the
// others share one.
func (m *meters) of(domain, path string) *metrics {
	if most := len(domain) + longestPath; len(path) > most {
		path = path[:most]
	}
	at := place{domain, path}
	m.mu.RLock()
	found := m.paths[at]
	m.mu.RUnlock()
	if found != nil {
		return found
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	at.path = strings.Clone(path) // without what was cut off
	key1, key2, _ := strings.Cut(strings.TrimPrefix(at.path, domain+"."), ".")
	if len(m.paths) >= mostPaths && m.paths[at] == nil {
		at.path, key1, key2 = domain+"...", "other", ""
	}
	if found = m.paths[at]; found != nil {
		return found
	}
	text := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
	labels := []string{text(domain), text(key1), text(key2)}
	found = &metrics{
		m.hits.WithLabelValues(labels...), m.over.WithLabelValues(labels...),
		m.near.WithLabelValues(labels...), m.within.WithLabelValues(labels...),
		m.shadow.WithLabelValues(labels...),
	}
	m.paths[at] = found
	return found
}
