package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
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

// token is one of the tests'.
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

// site serves the pages.
func site(t testing.TB, rdb redis.UniversalClient, config web.Config) *httptest.Server {
	t.Helper()
	h := handler(t, rdb, config)
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	t.Cleanup(func() { _ = h.Close() }) // before the server, which waits for streams
	return s
}

// limiter returns a limiter of its own with a rate.
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
	if _, err := l.TrySetRate(t.Context(), rratelimiter.PerClient, 10, time.Hour); err != nil {
		t.Fatal(err)
	}
	take(t, l, permits)
}

// take takes permits, which must be there.
func take(t testing.TB, l *rratelimiter.RateLimiter, permits int64) {
	t.Helper()
	if ok, err := l.TryAcquire(t.Context(), permits, 0); err != nil || !ok {
		t.Fatalf("%d permits: %v, %v", permits, ok, err)
	}
}

// get asks a Handler for a page.
func get(h http.Handler, target string, mods ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://localhost"+target, nil)
	return do(h, r, mods...)
}

// post fills in a form.
func post(h http.Handler, target string, form url.Values,
	mods ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://localhost"+target, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return do(h, r, mods...)
}

func do(h http.Handler, r *http.Request, mods ...func(*http.Request)) *httptest.ResponseRecorder {
	for _, mod := range mods {
		mod(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// header changes a request.
func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// page returns the address of a page about a limiter.
func page(path, name string) string { return path + "?" + url.Values{"name": {name}}.Encode() }

// An event is what the tests look at of a view.
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

// follow opens a stream.
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

// next returns the next event, and the line that it came in.
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

// until returns the first event that is as it should be.
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

// silent is a Redis that takes requests and says nothing.
type silent struct{}

func (silent) DialHook(next redis.DialHook) redis.DialHook { return next }

func (silent) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, _ redis.Cmder) error { <-ctx.Done(); return ctx.Err() }
}

func (silent) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, _ []redis.Cmder) error { <-ctx.Done(); return ctx.Err() }
}
