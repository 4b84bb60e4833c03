package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// A memory is a limit.Keyed in memory: at most rate permits in any interval, exactly. Its
// time is time.Now, which is that of the bubble in a synctest.
type memory struct {
	rate     int64
	interval time.Duration

	mu    sync.Mutex
	taken map[string][]time.Time // one for each permit, the oldest first
}

func newMemory(rate int64, interval time.Duration) *memory {
	return &memory{rate: rate, interval: interval, taken: map[string][]time.Time{}}
}

func (m *memory) Allow(ctx context.Context, key string, n int64) (limit.Result, error) {
	switch {
	case ctx.Err() != nil:
		return limit.Result{}, ctx.Err()
	case n < 1 || key == "" || len(key) > 1024 || strings.ContainsAny(key, "{}"):
		return limit.Result{}, fmt.Errorf("%w: secret %q %d", limit.ErrInvalidArgument, key, n)
	case n > m.rate:
		return limit.Result{}, fmt.Errorf("%w: secret", limit.ErrPermitsExceedRate)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now, taken := time.Now(), m.taken[key]
	for len(taken) > 0 && !taken[0].Add(m.interval).After(now) {
		taken = taken[1:]
	}
	r := limit.Result{Name: "secret", Limit: m.rate, Interval: m.interval}
	if r.Allowed = int64(len(taken))+n <= m.rate; r.Allowed {
		for range n {
			taken = append(taken, now)
		}
	} else {
		r.RetryAfter = taken[int64(len(taken))+n-m.rate-1].Add(m.interval).Sub(now)
	}
	r.Remaining = m.rate - int64(len(taken))
	if len(taken) > 0 {
		r.ResetAfter = taken[len(taken)-1].Add(m.interval).Sub(now)
	}
	m.taken[key] = taken
	return r, nil
}

// says returns a Keyed that returns the same each time.
func says(result limit.Result, err error) limit.Keyed {
	return limit.KeyedFunc(func(context.Context, string, int64) (limit.Result, error) { return result, err })
}

// errSecret is what no visitor may read.
var errSecret = errors.New("dial tcp 10.1.2.3:6379: secret")

func newMiddleware(
	t testing.TB, keyed limit.Keyed, key httplimit.KeyFunc, opts ...httplimit.Option,
) *httplimit.Middleware {
	t.Helper()
	m := redistest.Must(httplimit.New(keyed, key, opts...))(t)
	return m
}

// all is the key of tests that are not about keys.
var all = httplimit.Constant("all")

// visit sends a request through m to a handler that says welcome.
func visit(m *httplimit.Middleware, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "welcome")
	})).ServeHTTP(w, r)
	return w
}

func get(t testing.TB) *http.Request {
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
}

// header checks fields of a response: each has exactly these lines, none if empty.
func header(t *testing.T, h http.Header, want map[string]string) {
	t.Helper()
	for name, lines := range want {
		if got := strings.Join(h.Values(name), " | "); got != lines {
			t.Errorf("%s: %q, want %q", name, got, lines)
		}
	}
}

func status(t *testing.T, w *httptest.ResponseRecorder, want int) {
	t.Helper()
	if w.Code != want {
		t.Errorf("status %d, want %d: %s", w.Code, want, w.Body)
	}
	if strings.Contains(w.Body.String()+fmt.Sprint(w.Header()), "secret") {
		t.Errorf("the visitor sees what is not for visitors: %v %s", w.Header(), w.Body)
	}
}
