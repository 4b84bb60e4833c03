package httplimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
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

// Of many requests at once exactly as many are served as there are permits.
func TestManyRequestsAtOnce(t *testing.T) {
	const rate, crowd = 20, 50
	m := newMiddleware(t, newMemory(t, rate, time.Hour), httplimit.ByAddress(),
		httplimit.WithNearLimit(0.5, func(*http.Request, httplimit.Decision) {}),
		httplimit.WithExposedFields())
	server := httptest.NewServer(m.Handler(ignore))
	defer server.Close()
	codes := make([]int, crowd)
	var sent sync.WaitGroup
	for i := range crowd {
		sent.Go(func() { codes[i] = mustGet(t, http.DefaultTransport, server.URL) })
	}
	sent.Wait()
	slices.Sort(codes)
	if codes[rate-1] != http.StatusOK || codes[rate] != http.StatusTooManyRequests {
		t.Errorf("statuses %v, want %d of 200", codes, rate)
	}
}

// problem is a problem document (RFC 9457).
type problem struct {
	Type, Title, Detail string
	Status              int
	Violated            []string `json:"violated-policies"`
}

// Each result of the limiter has its status, its problem document and its hook.
func TestOutcomes(t *testing.T) {
	const types = "https://iana.org/assignments/http-problem-types#"
	const quota, reduced = types + "quota-exceeded", types + "temporary-reduced-capacity"
	const blank = "about:blank"
	invalidKey := fmt.Errorf("%w: secret", limit.ErrInvalidArgument)
	tooMany := fmt.Errorf("%w: secret", limit.ErrPermitsExceedRate)
	for name, test := range map[string]struct {
		result   limit.Result
		err      error
		fallback httplimit.Fallback
		status   int
		typ      string
		violated []string
		hook     string
	}{
		"allowed": {result: limit.Result{Allowed: true, Name: "secret"}, status: 200},
		"refused": {
			result: limit.Result{Name: "secret"},
			status: 429, typ: quota, violated: []string{"first"}, hook: "refused"},
		"refused by one of two": {
			result: limit.Result{Each: []limit.Result{{Limit: 1}, {Limit: 1, RetryAfter: 1}}},
			status: 429, typ: quota, violated: []string{"second"}, hook: "refused"},
		"refused by the first, the other would allow": {
			result: limit.Result{Each: []limit.Result{{Limit: 1}, {Allowed: true, Limit: 1}}},
			status: 429, typ: quota, violated: []string{"first"}, hook: "refused"},
		"refused by both": {
			result: limit.Result{Each: []limit.Result{{}, {}}},
			status: 429, typ: quota, violated: []string{"first", "second"}, hook: "refused"},
		"refused without the store": {
			result: limit.Result{Degraded: true}, status: 429, typ: reduced, violated: []string{"first"},
			hook: "refused"},
		"failed": {
			err: errSecret, status: 503, typ: reduced, violated: []string{}, hook: "error 503"},
		"failed, open": {err: errSecret, fallback: httplimit.FallbackAllow, status: 200, hook: "error 0"},
		"invalid key":  {err: invalidKey, status: 400, typ: blank, hook: "error 400"},
		"invalid key, open": {
			err: invalidKey, fallback: httplimit.FallbackAllow, status: 400, typ: blank, hook: "error 400"},
		"misconfigured limiter": {
			err: limit.ErrMisconfigured, status: 503, typ: reduced, violated: []string{}, hook: "error 503"},
		"too many permits": {err: tooMany, status: 400, typ: blank, hook: "error 400"},
		"too many permits, open": {
			err: tooMany, fallback: httplimit.FallbackAllow, status: 400, typ: blank, hook: "error 400"},
	} {
		t.Run(name, func(t *testing.T) {
			var hooked string
			m := newMiddleware(t, says(test.result, test.err), httplimit.Constant("secret"),
				httplimit.WithFallback(test.fallback), httplimit.WithPolicies("first", "second"),
				httplimit.WithRefusedHook(func(_ *http.Request, d httplimit.Decision) {
					hooked += "refused"
					if d.Key != "secret" || d.Cost != 1 || d.Err != nil || d.Status != test.status {
						t.Errorf("%+v", d)
					}
				}),
				httplimit.WithErrorHook(func(_ *http.Request, d httplimit.Decision) {
					hooked += fmt.Sprint("error ", d.Status)
					if !errors.Is(d.Err, test.err) {
						t.Errorf("%+v", d)
					}
				}))
			w := visit(m, get(t))
			status(t, w, test.status)
			if hooked != test.hook {
				t.Errorf("hook %q, want %q", hooked, test.hook)
			}
			_, isThere := w.Header()["Retry-After"]
			if isThere != (test.status == http.StatusTooManyRequests) {
				t.Errorf("Retry-After: %v", isThere)
			}
			if test.status == http.StatusOK {
				return
			}
			checkProblem(t, w, test.typ, test.violated)
		})
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

// A request waits for a silent limiter until WithTimeout, and the hook receives an error with both.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for timeout, opts := range map[time.Duration][]httplimit.Option{
			100 * time.Millisecond: nil, time.Second: {httplimit.WithTimeout(time.Second)},
		} {
			var told error
			hook := func(_ *http.Request, d httplimit.Decision) { told = d.Err }
			opts = append(opts, httplimit.WithErrorHook(hook))
			start := time.Now()
			status(t, visit(newMiddleware(t, silent, all, opts...), get(t)), http.StatusServiceUnavailable)
			if !errors.Is(told, limit.ErrNoAnswer) || !errors.Is(told, context.DeadlineExceeded) ||
				!strings.Contains(told.Error(), "Redis in "+timeout.String()+" (httplimit.WithTimeout)") {
				t.Errorf("the hook received %v, want ErrNoAnswer and the timeout", told)
			}
			if took := time.Since(start); took != timeout {
				t.Errorf("took %v, want %v", took, timeout)
			}
		}
	})
}

// In shadow mode hooks are called and no request is refused, and responses do not differ.
func TestShadow(t *testing.T) {
	for name, test := range map[string]struct {
		keyed limit.Keyed
		key   httplimit.KeyFunc
		want  int
	}{
		"refused": {newMemory(t, 1, time.Hour), all, http.StatusTooManyRequests},
		"failed":  {says(limit.Result{}, errSecret), all, http.StatusServiceUnavailable},
		"no key":  {newMemory(t, 1, time.Hour), httplimit.Constant(""), http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			var last httplimit.Decision
			hook := func(_ *http.Request, d httplimit.Decision) { last = d }
			m := newMiddleware(t, test.keyed, test.key, httplimit.WithShadow(), httplimit.WithExposedFields(),
				httplimit.WithRefusedHook(hook), httplimit.WithErrorHook(hook),
				httplimit.WithResponse(func(http.ResponseWriter, *http.Request, httplimit.Decision) {
					t.Error("a response was written")
				}))
			for range 2 {
				w := visit(m, get(t))
				status(t, w, http.StatusOK)
				w.Header().Del("Content-Type")
				if len(w.Header()) != 0 || w.Body.String() != "welcome" {
					t.Errorf("%v %s", w.Header(), w.Body)
				}
			}
			if last.Status != test.want {
				t.Errorf("%+v, want status %d", last, test.want)
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

// After a visitor has disconnected, a request lasts until WithTimeout or its own deadline at most. It
// is not served, and no hook is called.
func TestVisitorDisconnects(t *testing.T) {
	for name, test := range map[string]struct {
		leaves   time.Duration // after which the visitor disconnects; 0 is before the limiter is called
		deadline time.Duration // of the request
		want     time.Duration
	}{
		"before":        {0, time.Hour, 0},
		"meanwhile":     {20 * time.Millisecond, time.Hour, 100 * time.Millisecond},
		"deadline":      {time.Hour, 50 * time.Millisecond, 50 * time.Millisecond},
		"both together": {time.Hour, 100 * time.Millisecond, 100 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
			defer cancel()
			if test.leaves == 0 {
				cancel()
			}
			defer time.AfterFunc(test.leaves, cancel).Stop()
			called, start := false, time.Now()
			keyed := limit.KeyedFunc(func(ctx context.Context, key string, n int64) (limit.Result, error) {
				called = true
				return silent(ctx, key, n)
			})
			m := newMiddleware(t, keyed, all, httplimit.WithFallback(httplimit.FallbackAllow),
				httplimit.WithErrorHook(func(_ *http.Request, d httplimit.Decision) { t.Errorf("%+v", d) }))
			w := visit(m, get(t).WithContext(ctx))
			status(t, w, http.StatusServiceUnavailable)
			took := time.Since(start)
			if w.Body.Len() > 0 || took != test.want || called != (test.leaves > 0) {
				t.Errorf("%s: took %v, want %v; called %v; %s", name, took, test.want, called, w.Body)
			}
		})
	}
}
