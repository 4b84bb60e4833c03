package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
)

// newMemory returns limits in memory. Their time is that of the bubble in a synctest.
func newMemory(t testing.TB, rate int64, interval time.Duration) limit.Ledger {
	t.Helper()
	return redistest.Must(slidingwindow.Log{Rate: rate, Interval: interval}.InMemory())(t)
}

type limiters = limit.Keyed[limit.Limiter]

// asks returns a Keyed whose limiters are a function.
func asks(f limit.Func) limiters { return limit.Shared[limit.Limiter](f) }

// says returns a Keyed that always returns the same.
func says(result limit.Result, err error) limiters {
	return asks(func(context.Context, int64) (limit.Result, error) { return result, err })
}

// silent is a Keyed that returns when its context ends.
var silent = asks(waits)

func waits(ctx context.Context, _ int64) (limit.Result, error) {
	<-ctx.Done()
	return limit.Result{}, ctx.Err()
}

// errSecret is an error that visitors must not see.
var errSecret = errors.New("dial tcp 10.1.2.3:6379: secret")

func newMiddleware[L limit.Limiter](
	t testing.TB, keyed limit.Keyed[L], key httplimit.KeyFunc, opts ...httplimit.Option,
) *httplimit.Middleware {
	t.Helper()
	return redistest.Must(httplimit.New(keyed, key, opts...))(t)
}

// all is the key of tests that are not about keys.
var all = httplimit.Constant("all")

// keyIs returns a KeyFunc that always returns the same.
func keyIs(key string, err error) httplimit.KeyFunc {
	return func(*http.Request) (string, error) { return key, err }
}

// ignore is a handler that writes nothing.
var ignore = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// visit sends a request through m to a handler that writes "welcome".
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
		got := strings.Join(h.Values(name), " | ")
		if got != lines || lines == "" && h.Values(name) != nil {
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
		t.Errorf("the visitor sees a secret: %v %s", w.Header(), w.Body)
	}
}

// second returns the error of a constructor.
func second(_ any, err error) error { return err }

// A transport is an http.RoundTripper that is a function. It closes the bodies of requests, as a
// RoundTripper must do.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	return f(r)
}

// A body records that it was closed.
type body struct {
	*strings.Reader
	closed bool
}

func newBody(text string) *body { return &body{Reader: strings.NewReader(text)} }
func (b *body) Close() error    { b.closed = true; return nil }

func outgoing(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	return redistest.Must(http.NewRequestWithContext(t.Context(), method, url, body))(t)
}

const apiURL = "http://api.example.com/x"

// response returns a response whose body panics if it is read.
func response(code int, fields ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(fields); i += 2 {
		h.Set(fields[i], fields[i+1])
	}
	return &http.Response{StatusCode: code, Header: h, Body: &body{}}
}

// send sends r and closes the body of the response.
func send(t *testing.T, sender http.RoundTripper, r *http.Request) (int, error) {
	t.Helper()
	got, err := sender.RoundTrip(r)
	if err != nil {
		if got != nil {
			t.Error("a response and an error")
		}
		return 0, err
	}
	return got.StatusCode, got.Body.Close()
}

// mustGet sends a GET request that gets a response.
func mustGet(t *testing.T, sender http.RoundTripper, url string) int {
	t.Helper()
	return redistest.Must(send(t, sender, outgoing(t, http.MethodGet, url, nil)))(t)
}

// exampleAddr is the address of the Redis of the examples.
var exampleAddr string

func TestMain(m *testing.M) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		panic(err)
	}
	// Its clock is stopped, so that the examples print the same on a slow machine.
	server.SetTime(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC))
	exampleAddr = server.Addr()
	warmUp()
	code := m.Run()
	server.Close()
	os.Exit(code)
}

// warmUp makes the first call, which takes longest, before the examples, whose limiters have 100 ms.
func warmUp() {
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()
	first := client.Keyed("first", 1, time.Minute).For("call")
	if _, err := first.Allow(context.Background(), 1); err != nil {
		panic(err)
	}
}
