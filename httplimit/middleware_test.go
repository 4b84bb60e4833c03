package httplimit_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// A visitor gets the handler's response while there are permits, then a 429 with Retry-After, and the
// handler's response again after exactly that time.
func TestRefusedUntilRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMiddleware(t, newMemory(t, 2, time.Minute), all, httplimit.WithPolicies("burst"))
		for _, left := range []string{"1", "0"} {
			w := visit(m, get(t))
			status(t, w, http.StatusOK)
			header(t, w.Header(), map[string]string{
				"RateLimit-Policy": `"burst";q=2;w=60`, "Retry-After": "",
				"RateLimit": `"burst";r=` + left + `;t=60`,
			})
		}
		time.Sleep(19*time.Second + time.Nanosecond) // of the bubble
		w := visit(m, get(t))
		status(t, w, http.StatusTooManyRequests)
		header(t, w.Header(), map[string]string{
			"RateLimit": `"burst";r=0;t=41`, "Retry-After": "41", "Content-Type": "application/problem+json",
			"Access-Control-Expose-Headers": "",
		})
		time.Sleep(41 * time.Second)
		status(t, visit(m, get(t)), http.StatusOK)
	})
}

// problem is a problem document (RFC 9457).
type problem struct {
	Type, Title, Detail string
	Status              int
	Violated            []string `json:"violated-policies"`
}

// Each result of the limiter has its status, its problem document and its hook. With FallbackAllow a request
// passes if the limiter fails, and with no other error. In shadow mode all pass, and hooks are called.
func TestOutcomes(t *testing.T) {
	const types = "https://iana.org/assignments/http-problem-types#"
	const quota, reduced = types + "quota-exceeded", types + "temporary-reduced-capacity"
	const blank = "about:blank"
	wrap := func(err error) error { return fmt.Errorf("%w: secret", err) }
	of := func(each ...limit.Result) limit.Result { return limit.Result{Each: each} }
	yes, no := limit.Result{Allowed: true, Name: "secret", Limit: 1}, limit.Result{Name: "secret", Limit: 1}
	later := limit.Result{Limit: 1, RetryAfter: 1}
	first, second, none := []string{"first"}, []string{"second"}, []string{}
	for name, test := range map[string]struct {
		result       limit.Result
		err          error
		status, open int // without and with FallbackAllow
		typ          string
		violated     []string
	}{
		"allowed":               {yes, nil, 200, 200, "", nil},
		"refused":               {no, nil, 429, 429, quota, first},
		"refused by one of two": {of(no, later), nil, 429, 429, quota, second},
		"by the first of two":   {of(no, yes), nil, 429, 429, quota, first},
		"refused by both":       {of(no, no), nil, 429, 429, quota, []string{"first", "second"}},
		"without the store":     {limit.Result{Degraded: true}, nil, 429, 429, reduced, first},
		"failed":                {yes, errSecret, 503, 200, reduced, none},
		"misconfigured":         {yes, wrap(limit.ErrMisconfigured), 503, 200, reduced, none},
		"invalid key":           {yes, wrap(limit.ErrInvalidArgument), 400, 400, blank, nil},
		"too many permits":      {yes, wrap(limit.ErrPermitsExceedRate), 400, 400, blank, nil},
	} {
		for _, mode := range []struct {
			opt          httplimit.Option
			status, told int // to the visitor, and to the hook
		}{
			{httplimit.WithFallback(httplimit.FallbackDeny), test.status, test.status},
			{httplimit.WithFallback(httplimit.FallbackAllow), test.open, test.open},
			{httplimit.WithShadow(), http.StatusOK, test.status},
		} {
			told := 0
			hook := func(_ *http.Request, d httplimit.Decision) {
				told = cmp.Or(d.Status, http.StatusOK)
				if d.Key != "secret" || d.Cost != 1 || d.Err != test.err {
					t.Errorf("%s: the hook received %+v", name, d)
				}
			}
			opts := []httplimit.Option{mode.opt, httplimit.WithPolicies("first", "second"),
				httplimit.WithExposedFields()}
			if test.err == nil {
				opts = append(opts, httplimit.WithRefusedHook(hook))
			} else {
				opts = append(opts, httplimit.WithErrorHook(hook))
			}
			if name == "allowed" {
				mode.told = 0
			}
			keyed := says(test.result, test.err)
			w := visit(newMiddleware(t, keyed, httplimit.Constant("secret"), opts...), get(t))
			t.Log(name)
			status(t, w, mode.status)
			_, there := w.Header()["Retry-After"]
			if told != mode.told || there != (mode.status == http.StatusTooManyRequests) {
				t.Errorf("the hook received %d, want %d; Retry-After: %v", told, mode.told, there)
			}
			if mode.status != http.StatusOK {
				checkProblem(t, w, test.typ, test.violated)
			} else if w.Header().Del("Content-Type"); mode.status != test.status && len(w.Header()) > 0 {
				t.Errorf("a request that passes without a permit has %v", w.Header())
			}
		}
	}
}

// checkProblem checks a problem document. violated is nil for one without that member.
func checkProblem(t *testing.T, w *httptest.ResponseRecorder, typ string, violated []string) {
	t.Helper()
	var p problem
	redistest.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
	if p.Type != typ || p.Status != w.Code || p.Title == "" ||
		!slices.Equal(p.Violated, violated) || (p.Violated == nil) != (violated == nil) {
		t.Errorf("%+v", p)
	}
}

// A request with an invalid key or cost does not bypass the limit, whatever the fallback.
func TestKeysAndCosts(t *testing.T) {
	key := keyIs
	cost := func(n int64, err error) httplimit.Option {
		return httplimit.WithCost(func(*http.Request) (int64, error) { return n, err })
	}
	one := cost(1, nil)
	for name, test := range map[string]struct {
		key    httplimit.KeyFunc
		cost   httplimit.Option
		status int
		asked  int64
	}{
		"a key":               {key("k", nil), one, 200, 1},
		"a cost":              {key("k", nil), cost(7, nil), 200, 7},
		"an empty key":        {key("", nil), one, 400, 0},
		"no key":              {key("k", httplimit.ErrNoKey), one, 400, 0},
		"a constant, empty":   {httplimit.Constant(""), one, 400, 0},
		"an invalid key":      {key("k", limit.ErrInvalidArgument), one, 400, 0},
		"an error for a key":  {key("k", errSecret), one, 503, 0},
		"no limit":            {key("", fmt.Errorf("%w: health", httplimit.ErrNoLimit)), one, 200, 0},
		"no cost":             {key("k", nil), cost(0, nil), 200, 0},
		"no cost, no key":     {key("", nil), cost(0, nil), 400, 0},
		"a cost below 0":      {key("k", nil), cost(-1, nil), 400, 0},
		"no limit for a cost": {key("k", nil), cost(5, httplimit.ErrNoLimit), 200, 0},
		"an error for a cost": {key("k", nil), cost(1, errSecret), 503, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var asked int64
			keyed := limit.KeyedFunc(func(_ context.Context, key string, n int64) (limit.Result, error) {
				if asked = n; key != "k" {
					t.Errorf("asked for %q", key)
				}
				return limit.Result{Allowed: true}, nil
			})
			m := newMiddleware(t, keyed, test.key, test.cost, httplimit.WithFallback(httplimit.FallbackAllow))
			status(t, visit(m, get(t)), test.status)
			if asked != test.asked {
				t.Errorf("asked for %d permits, want %d", asked, test.asked)
			}
		})
	}
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

// The handler gets the ResponseWriter of the server, with the fields in its header.
func TestWriterIsNotWrapped(t *testing.T) {
	m := newMiddleware(t, newMemory(t, 1, time.Hour), all)
	w := httptest.NewRecorder()
	m.Handler(http.HandlerFunc(func(got http.ResponseWriter, _ *http.Request) {
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
		"the default":   {time.Hour, time.Hour, 100 * ms, 100 * ms, "in 100ms (httplimit.WithTimeout)"},
		"a second":      {time.Hour, time.Hour, time.Second, time.Second, "in 1s (httplimit.WithTimeout)"},
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
			if name != "the default" {
				opts = append(opts, httplimit.WithTimeout(test.timeout))
			}
			keyed := limit.KeyedFunc(func(ctx context.Context, key string, n int64) (limit.Result, error) {
				called = true
				return silent(ctx, key, n)
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
func costs(tb testing.TB, result limit.Result) func() {
	m := newMiddleware(tb, says(result, nil), httplimit.ByAddress(), httplimit.WithPolicies("burst", "daily"))
	handler := m.Handler(ignore)
	// The context of a server's request can end.
	ctx, cancel := context.WithCancel(context.Background())
	tb.Cleanup(cancel)
	r := get(tb).WithContext(ctx)
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

// measured are the requests that the test and the benchmark share.
var measured = []struct {
	name   string
	result limit.Result
	most   float64 // allocations
}{{"granted", granted, 8}, {"two", two, 8}, {"refused", denied, 12}}

// A request costs few allocations, besides those of the limiter.
func TestRequestsCostFewAllocations(t *testing.T) {
	for _, test := range measured {
		if got := testing.AllocsPerRun(1000, costs(t, test.result)); got > test.most {
			t.Errorf("%s: %v allocations, want at most %v", test.name, got, test.most)
		}
	}
}

func BenchmarkMiddleware(b *testing.B) {
	for _, bench := range measured {
		b.Run(bench.name, func(b *testing.B) {
			request := costs(b, bench.result)
			b.ReportAllocs()
			for b.Loop() {
				request()
			}
		})
	}
}
