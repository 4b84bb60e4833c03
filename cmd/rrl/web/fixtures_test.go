package web_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/cmd/rrl/web"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis returns the same as errors
	redistest.VerifyNoLeaks(m)
}

const token = "a token of the tests"

// handler returns the pages of a Redis.
func handler(t testing.TB, rdb redis.UniversalClient, config web.Config) *web.Handler {
	t.Helper()
	h := redistest.Must(web.New(rdb, config))(t)
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// mini returns an embedded Redis.
func mini(t testing.TB) *redis.Client { return redistest.MiniClient(t, redistest.Mini(t)) }

// orders returns the pages of an embedded Redis with the limiter orders, and counts their round trips.
func orders(t testing.TB, config web.Config) (*web.Handler, *atomic.Int64) {
	t.Helper()
	rdb := mini(t)
	limiter(t, rdb, "orders", 10)
	trips := redistest.RoundTrips(rdb)
	return handler(t, rdb, config), trips
}

// site serves the pages.
func site(t testing.TB, rdb redis.UniversalClient, config web.Config) *httptest.Server {
	t.Helper()
	h := handler(t, rdb, config)
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	t.Cleanup(func() { _ = h.Close() }) // before the server, which waits for streams
	return s
}

// limiter returns a limiter with a rate.
func limiter(t testing.TB, rdb redis.UniversalClient, name string, rate int64) *rratelimiter.RateLimiter {
	t.Helper()
	c := rratelimiter.New(rdb, rratelimiter.WithID("pod-1"))
	t.Cleanup(func() { _ = c.Close() })
	l := c.RateLimiter(name)
	redistest.NoError(t, l.SetRate(t.Context(), rratelimiter.Overall, rate, time.Hour))
	return l
}

// perClient sets a PER_CLIENT rate of 10, and takes permits as the client with an id.
func perClient(t testing.TB, rdb redis.UniversalClient, name, id string, permits int64) {
	t.Helper()
	c := rratelimiter.New(rdb, rratelimiter.WithID(id))
	defer c.Close()
	l := c.RateLimiter(name)
	redistest.Must(l.TrySetRate(t.Context(), rratelimiter.PerClient, 10, time.Hour))(t)
	take(t, l, permits)
}

// take takes permits, which must be there.
func take(t testing.TB, l *rratelimiter.RateLimiter, permits int64) {
	t.Helper()
	if ok, err := l.TryAcquire(t.Context(), permits, 0); err != nil || !ok {
		t.Fatalf("%d permits: %v, %v", permits, ok, err)
	}
}

// A reply is the response to a request.
type reply struct {
	*httptest.ResponseRecorder
	target string
}

// is checks the status, and that the body has some parts, and lacks those behind a !. It returns the body.
func (r reply) is(t testing.TB, code int, parts ...string) (body string) {
	t.Helper()
	body = r.Body.String()
	if r.Code != code {
		t.Errorf("%.60s: %d, want %d\n%s", r.target, r.Code, code, body)
	}
	for _, part := range parts {
		if absent, not := strings.CutPrefix(part, "!"); strings.Contains(body, absent) == not {
			t.Errorf("%.60s: not %q in\n%s", r.target, part, body)
		}
	}
	return body
}

// get asks a Handler for a page.
func get(h http.Handler, target string, mods ...func(*http.Request)) reply {
	r := httptest.NewRequest(http.MethodGet, "http://localhost"+target, nil)
	return do(h, r, mods...)
}

func do(h http.Handler, r *http.Request, mods ...func(*http.Request)) reply {
	for _, mod := range mods {
		mod(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return reply{w, r.Method + " " + r.Host + r.URL.String()}
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// page returns the address of a page about a limiter.
func page(path, name string) string { return path + "?" + url.Values{"name": {name}}.Encode() }

// An event is the part of a view that the tests check.
type event struct {
	State     string            `json:"state"`
	Texts     map[string]string `json:"texts"`
	Remaining int64             `json:"remaining"`
	ByGo      int64             `json:"by_go"`
	ByOthers  int64             `json:"by_others"`
	Findings  []struct{ What, Mend string }
}

// A stream is a live page.
type stream struct {
	t     testing.TB
	body  io.ReadCloser
	lines *bufio.Reader
}

func follow(t testing.TB, address string) *stream {
	t.Helper()
	r := redistest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil))(t)
	res := redistest.Must(http.DefaultClient.Do(r))(t)
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s: %s, %v", address, res.Status, res.Header)
	}
	return &stream{t, res.Body, bufio.NewReader(res.Body)}
}

// next returns the next event, and its line.
func (s *stream) next() (e event, line string) {
	s.t.Helper()
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			s.t.Fatalf("the stream has ended: %v", err)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				s.t.Fatalf("%v: %s", err, data)
			}
			return e, line
		}
	}
}

// until returns the first event for which ok is true.
func (s *stream) until(what string, ok func(e event) bool) (e event) {
	s.t.Helper()
	redistest.Until(s.t, what, func() error {
		if e, _ = s.next(); !ok(e) {
			return fmt.Errorf("the last event: %+v", e)
		}
		return nil
	})
	return e
}
