package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/limit"
)

// A visitor gets the handler's response while there are permits, then a 429 with Retry-After, and the
// handler's response again after exactly that time.
func TestRefusedUntilRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMiddleware(t, newMemory(t, 2, time.Minute), all)
		for range 2 {
			status(t, visit(m, get(t)), http.StatusOK)
		}
		time.Sleep(19*time.Second + time.Nanosecond) // of the bubble
		w := visit(m, get(t))
		status(t, w, http.StatusTooManyRequests)
		header(t, w.Header(), map[string]string{"RateLimit": `"default";r=0;t=41`, "Retry-After": "41"})
		time.Sleep(41 * time.Second)
		status(t, visit(m, get(t)), http.StatusOK)
	})
}

// The hook of WithNearLimit is called if the share is reached and the numbers are known.
func TestNearLimit(t *testing.T) {
	left := func(n int64) limit.Result { return limit.Result{Allowed: true, Limit: 10, Remaining: n} }
	degraded := left(0)
	degraded.Degraded = true
	refused := left(0)
	refused.Allowed = false
	for _, test := range []struct {
		result limit.Result
		want   bool
	}{
		{left(3), false}, {left(2), true}, {left(0), true}, {degraded, false}, {refused, false},
		{limit.Result{Allowed: true}, false},
		{limit.Result{Allowed: true, Each: []limit.Result{left(9), left(1)}}, true},
	} {
		called := false
		m := newMiddleware(t, says(test.result, nil), all,
			httplimit.WithNearLimit(0.8, func(_ *http.Request, d httplimit.Decision) {
				called = d.Result.Allowed && d.Status == 0
			}))
		visit(m, get(t))
		if called != test.want {
			t.Errorf("%+v: %v, want %v", test.result, called, test.want)
		}
	}
}

// WithResponse replaces status and body; the fields are set before.
func TestWithResponse(t *testing.T) {
	m := newMiddleware(t, says(limit.Result{Limit: 1, RetryAfter: time.Second}, nil), all,
		httplimit.WithResponse(func(w http.ResponseWriter, _ *http.Request, d httplimit.Decision) {
			http.Error(w, fmt.Sprint("later: ", d.Status, d.Result.RetryAfter), http.StatusTeapot)
		}))
	w := visit(m, get(t))
	status(t, w, http.StatusTeapot)
	header(t, w.Header(), map[string]string{"Retry-After": "1", "RateLimit": `"default";r=0;t=1`})
	if w.Body.String() != "later: 429 1s\n" {
		t.Errorf("%s", w.Body)
	}
}

// Scripts of other origins can read the fields, and values of other handlers stay.
func TestExposedFields(t *testing.T) {
	for fields, want := range map[httplimit.Fields]string{
		0:                 "ETag | Retry-After",
		httplimit.Draft11: "ETag | Retry-After, RateLimit-Policy, RateLimit",
		httplimit.Draft6: "ETag | Retry-After, RateLimit-Policy, RateLimit-Limit, RateLimit-Remaining, " +
			"RateLimit-Reset",
		httplimit.XRateLimit: "ETag | Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, " +
			"X-RateLimit-Reset",
	} {
		m := newMiddleware(t, newMemory(t, 1, time.Hour), all,
			httplimit.WithExposedFields(), httplimit.WithFields(fields))
		for _, code := range []int{http.StatusOK, http.StatusTooManyRequests} {
			w := httptest.NewRecorder()
			w.Header().Set("Access-Control-Expose-Headers", "ETag")
			m.Handler(ignore).ServeHTTP(w, get(t))
			status(t, w, code)
			header(t, w.Header(), map[string]string{"Access-Control-Expose-Headers": want})
		}
	}
}

// Preflights are limited like all requests, unless an option exempts them. An OPTIONS request is not
// a preflight without both fields.
func TestPreflights(t *testing.T) {
	preflight := func(without string) *http.Request {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodOptions, "/", nil)
		r.Header.Set("Origin", "https://example.com")
		r.Header.Set("Access-Control-Request-Method", "PUT")
		r.Header.Del(without)
		return r
	}
	none := says(limit.Result{}, nil)
	limited := newMiddleware(t, none, all)
	free := newMiddleware(t, none, all, httplimit.WithoutPreflights())
	status(t, visit(limited, preflight("")), http.StatusTooManyRequests)
	status(t, visit(free, preflight("")), http.StatusOK)
	status(t, visit(free, get(t)), http.StatusTooManyRequests)
	for _, field := range []string{"Origin", "Access-Control-Request-Method"} {
		status(t, visit(free, preflight(field)), http.StatusTooManyRequests)
	}
}

// The handler gets the ResponseWriter of the server, with the fields in its header, and nothing to settle.
func TestWriterIsNotWrapped(t *testing.T) {
	m := newMiddleware(t, newMemory(t, 1, time.Hour), all)
	w := httptest.NewRecorder()
	m.Handler(http.HandlerFunc(func(got http.ResponseWriter, r *http.Request) {
		if err := httplimit.Settle(r.Context(), 1); !errors.Is(err, limit.ErrNoReservation) {
			t.Errorf("%v, want ErrNoReservation", err)
		}
		if got != http.ResponseWriter(w) {
			t.Errorf("%T", got)
		}
		if got.Header().Get("RateLimit") == "" {
			t.Error("the fields come after the handler")
		}
	})).ServeHTTP(w, get(t))
}

// A request waits for a silent limiter until WithTimeout, and the hook receives an error with it. After a
// visitor has disconnected, it lasts until then, or its own deadline; it is not served, and no hook called.
func TestSilentLimiter(t *testing.T) {
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		leaves        time.Duration // after which the visitor disconnects; 0 is before the limiter is called
		deadline      time.Duration // of the request
		timeout, took time.Duration
		told          string
	}{
		"a second":      {time.Hour, time.Hour, time.Second, time.Second, "in 1s (httplimit.WithTimeout)"},
		"by default":    {time.Hour, time.Hour, 0, 100 * ms, "in 100ms (httplimit.WithTimeout)"},
		"left before":   {0, time.Hour, 100 * ms, 0, ""},
		"left":          {20 * ms, time.Hour, 100 * ms, 100 * ms, ""},
		"deadline":      {time.Hour, 50 * ms, 100 * ms, 50 * ms, ""},
		"both together": {time.Hour, 100 * ms, 100 * ms, 100 * ms, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
			defer cancel()
			if test.leaves == 0 {
				cancel()
			}
			defer time.AfterFunc(test.leaves, cancel).Stop()
			var told error
			called, start := false, time.Now()
			opts := []httplimit.Option{httplimit.WithErrorHook(
				func(_ *http.Request, d httplimit.Decision) { told = d.Err })}
			if test.timeout > 0 {
				opts = append(opts, httplimit.WithTimeout(test.timeout))
			}
			keyed := asks(func(ctx context.Context, n int64) (limit.Result, error) {
				called = true
				return waits(ctx, n)
			})
			w := visit(newMiddleware(t, keyed, all, opts...), get(t).WithContext(ctx))
			status(t, w, http.StatusServiceUnavailable)
			if took := time.Since(start); took != test.took || called != (test.leaves > 0) {
				t.Errorf("%s: took %v, want %v; called %v", name, took, test.took, called)
			}
			if gone := test.told == ""; gone != (told == nil) || gone != (w.Body.Len() == 0) ||
				!gone && (!errors.Is(told, limit.ErrNoAnswer) || !errors.Is(told, context.DeadlineExceeded) ||
					!strings.Contains(told.Error(), test.told)) {
				t.Errorf("%s: the hook received %v, want %q", name, told, test.told)
			}
		})
	}
}

// A blank is a ResponseWriter that allocates nothing.
type blank struct{ h http.Header }

func (b blank) Header() http.Header         { return b.h }
func (b blank) Write(p []byte) (int, error) { return len(p), nil }
func (b blank) WriteHeader(int)             {}

// costs returns a function that sends one request through a Middleware to an empty handler.
func costs(t *testing.T, result limit.Result) func() {
	m := newMiddleware(t, says(result, nil), httplimit.ByAddress(), httplimit.WithPolicies("burst", "daily"))
	handler := m.Handler(ignore)
	// The context of a server's request can end.
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r := get(t).WithContext(ctx)
	r.RemoteAddr = "203.0.113.7:4711"
	h := http.Header{}
	return func() {
		clear(h)
		h["Content-Type"] = nil // every response has a header, whose first entry allocates
		handler.ServeHTTP(blank{h}, r)
	}
}

var (
	granted = limit.Result{
		Allowed: true, Limit: 100, Interval: time.Minute, Remaining: 50, ResetAfter: 30 * time.Second,
	}
	denied = limit.Result{Limit: 100, Interval: time.Minute, RetryAfter: time.Second, ResetAfter: time.Minute}
	two    = limit.Result{Allowed: true, Limit: 100, Each: []limit.Result{granted, granted}}
)

// A request costs few allocations, besides those of the limiter.
func TestRequestsCostFewAllocations(t *testing.T) {
	for _, test := range []struct {
		name   string
		result limit.Result
		most   float64 // allocations
	}{{"granted", granted, 8}, {"two", two, 8}, {"refused", denied, 12}} {
		if got := testing.AllocsPerRun(1000, costs(t, test.result)); got > test.most {
			t.Errorf("%s: %v allocations, want at most %v", test.name, got, test.most)
		}
	}
}
