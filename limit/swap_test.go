package limit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// Any limiter does behind the middleware: those of all algorithms, in memory and on Redis,
// and that of Redisson. Each lets the limit pass and refuses what follows.
func TestBehindHTTP(t *testing.T) {
	const rate, interval = 3, time.Hour
	server := redistest.Start(t)
	client := rratelimiter.New(server.Client(t))
	defer client.Close()
	type entry struct {
		name  string
		keyed limit.Keyed
		burst int64
	}
	all := []entry{{"RRateLimiter", client.Keyed(redistest.Name(t), rate, interval), rate}}
	for _, a := range algorithms {
		memory := redistest.Must(a.of(rate, interval).InMemoryKeyed())(t)
		shared := redistest.Must(a.of(rate, interval).OnRedisKeyed(server.Client(t), redistest.Name(t)))(t)
		all = append(all, entry{a.name + " in memory", memory, a.burst(rate)},
			entry{a.name + " on Redis", shared, a.burst(rate)})
	}
	for _, e := range all {
		t.Run(e.name, func(t *testing.T) {
			byName := func(r *http.Request) (string, error) { return r.Header.Get("Name"), nil }
			m := redistest.Must(httplimit.New(e.keyed, byName))(t)
			handler := m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			for _, name := range []string{"one", "other"} { // each has a limit
				for i := range rate + 2 {
					serve(t, handler, name, int64(i) < e.burst)
				}
			}
		})
	}
}

// serve sends a request, and expects that it is passed on, or refused with a time.
func serve(t *testing.T, handler http.Handler, name string, passes bool) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Header.Set("Name", name)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	want := http.StatusTooManyRequests
	if passes {
		want = http.StatusOK
	}
	if later := w.Header().Get("Retry-After"); w.Code != want || (later == "") != passes {
		t.Errorf("%s: status %d, Retry-After %q; want %d", name, w.Code, later, want)
	}
	if w.Header().Get("RateLimit") == "" || w.Header().Get("RateLimit-Policy") == "" {
		t.Errorf("%s: no fields: %v", name, w.Header())
	}
}
