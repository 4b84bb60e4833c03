package httplimit_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// Each result of the limiter has these fields of draft 11.
func TestFields(t *testing.T) {
	second, minute := time.Second, time.Minute
	burst := limit.Result{Allowed: true, Limit: 100, Interval: minute, Remaining: 50, ResetAfter: 30 * second}
	daily := limit.Result{Allowed: true, Limit: 1000, Interval: 24 * time.Hour, Remaining: 999, ResetAfter: 1}
	refused := limit.Result{Limit: 100, Interval: minute, RetryAfter: 1, ResetAfter: minute}
	unlike := func(r limit.Result, change func(*limit.Result)) limit.Result { change(&r); return r }
	after := func(d time.Duration) limit.Result {
		return unlike(refused, func(r *limit.Result) { r.RetryAfter = d })
	}
	every := func(d time.Duration) limit.Result {
		return unlike(burst, func(r *limit.Result) { r.Interval = d })
	}
	named := func(name string) limit.Result {
		return unlike(burst, func(r *limit.Result) { r.Policy = name })
	}
	const policy, half = `"default";q=100;w=60`, `"default";r=50;t=30`
	for name, test := range map[string]struct {
		result       limit.Result
		names        []string
		policy, rate string
		retryAfter   string
	}{
		"the draft's example": {burst, []string{"burst"}, `"burst";q=100;w=60`, `"burst";r=50;t=30`, ""},
		"no name":             {burst, nil, policy, half, ""},
		"several": {
			limit.Result{Allowed: true, Limit: 100, Each: []limit.Result{burst, daily}},
			[]string{"burst", "daily"},
			`"burst";q=100;w=60, "daily";q=1000;w=86400`, `"burst";r=50;t=30, "daily";r=999;t=1`, ""},
		"several, one has a name": {
			limit.Result{Allowed: true, Each: []limit.Result{burst, daily}}, []string{"burst"},
			`"burst";q=100;w=60, "limit-2";q=1000;w=86400`, `"burst";r=50;t=30, "limit-2";r=999;t=1`, ""},
		"several, one is unknown": {
			limit.Result{Allowed: true, Each: []limit.Result{{Allowed: true}, burst}}, nil,
			`"limit-2";q=100;w=60`, `"limit-2";r=50;t=30`, ""},
		"refused without a time": {after(0), nil, policy, `"default";r=0;t=60`, "1"},
		"the longest RetryAfter counts": {
			limit.Result{
				RetryAfter: second, Each: []limit.Result{after(1), {Limit: 5, RetryAfter: 7 * second}},
			}, nil, `"limit-1";q=100;w=60, "limit-2";q=5`, `"limit-1";r=0;t=1, "limit-2";r=0;t=7`, "7"},
		"a window below a second": {every(time.Millisecond), nil, `"default";q=100;w=1`, half, ""},
		"a limit that never grants": {limit.Result{Interval: minute, RetryAfter: minute}, nil,
			`"default";q=0;w=60`, `"default";r=0;t=60`, "60"},
		"no window": {every(0), nil, `"default";q=100`, half, ""},
		"numbers out of the bounds": {
			limit.Result{
				Allowed: true, Limit: 1 << 53, Interval: math.MaxInt64, Remaining: -1, ResetAfter: -1,
			}, nil, `"default";q=999999999999999;w=9223372037`, `"default";r=0;t=0`, ""},
		"degraded, with a rate": {
			unlike(burst, func(r *limit.Result) { r.Degraded = true }), nil, policy, "", ""},
		"degraded, without a rate": {limit.Result{Allowed: true, Degraded: true}, nil, "", "", ""},
		"a name of the limit":      {named("a"), nil, `"a";q=100;w=60`, `"a";r=50;t=30`, ""},
		"a name with a quote":      {named(`a"b`), nil, `"a\"b";q=100;w=60`, `"a\"b";r=50;t=30`, ""},
		"a name with lines":        {named("a\r\nb"), nil, policy, half, ""},
		"a name beyond ASCII":      {named("ä"), nil, policy, half, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMiddleware(t, says(test.result, nil), all, httplimit.WithPolicies(test.names...))
			w := visit(m, get(t))
			header(t, w.Header(), map[string]string{
				"RateLimit-Policy": test.policy, "RateLimit": test.rate, "Retry-After": test.retryAfter,
			})
		})
	}
}

// The older fields have the numbers of the limit that binds, alone and beside those of draft 11.
func TestOlderFields(t *testing.T) {
	const d11, d6, x = httplimit.Draft11, httplimit.Draft6, httplimit.XRateLimit
	burst := limit.Result{Limit: 5, Interval: time.Second, RetryAfter: 1500 * time.Millisecond}
	both, whole, never := burst, burst, burst
	both.Each = []limit.Result{burst, {Limit: 100, Interval: time.Hour}}
	whole.RetryAfter = 2 * time.Second
	never.Limit = 0
	const reset = "946684802" // a bubble begins at midnight UTC 2000-01-01
	for _, test := range []struct {
		fields       httplimit.Fields
		result       limit.Result
		policy, rate string
		older, xs    string // limit, remaining and reset
	}{
		{0, both, "", "", "  ", "  "},
		{d6, both, "5;w=1, 100;w=3600", "", "5 0 2", "  "},
		{x, both, "", "", "  ", "5 0 " + reset},
		{d11 | d6 | x, both, `"limit-1";q=5;w=1, "limit-2";q=100;w=3600`,
			`"limit-1";r=0;t=2, "limit-2";r=0;t=0`, "5 0 2", "5 0 " + reset},
		{d6 | x, whole, "5;w=1", "", "5 0 2", "5 0 " + reset},
		{d6 | x, never, "0;w=1", "", "0 0 2", "0 0 " + reset},
		{d6 | x, limit.Result{Degraded: true, Limit: 7}, "7", "", "  ", "  "},
		{d6 | x, limit.Result{Remaining: 7}, "", "", "  ", "  "},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newMiddleware(t, says(test.result, nil), all, httplimit.WithFields(test.fields))
			h := visit(m, get(t)).Header()
			header(t, h, map[string]string{"RateLimit-Policy": test.policy, "RateLimit": test.rate})
			for prefix, want := range map[string]string{"RateLimit-": test.older, "X-RateLimit-": test.xs} {
				got := h.Get(prefix+"Limit") + " " + h.Get(prefix+"Remaining") + " " + h.Get(prefix+"Reset")
				if got != want || h.Get("Retry-After") == "" {
					t.Errorf("fields %d of %+v: %q, want %q", test.fields, test.result, got, want)
				}
			}
		})
	}
}

// A Middleware within another adds lines to the fields, which RFC 9651 joins to one list. Fields for one
// limit have the limit that binds, wherever it is.
func TestFieldsOfSeveralMiddlewares(t *testing.T) {
	opts := []httplimit.Option{httplimit.WithExposedFields(),
		httplimit.WithFields(httplimit.Draft11 | httplimit.Draft6 | httplimit.XRateLimit)}
	for _, test := range []struct {
		outer, inner int64 // the rates of a minute and a second
		want         [3]string
	}{
		{10, 5, [3]string{`"all";r=9;t=60 | "route";r=4;t=1`, "5", "4"}},
		{5, 10, [3]string{`"all";r=4;t=60 | "route";r=9;t=1`, "5", "4"}},
	} {
		outer := newMiddleware(t, newMemory(t, test.outer, time.Minute), all,
			append(opts, httplimit.WithPolicies("all"))...)
		inner := newMiddleware(t, newMemory(t, test.inner, time.Second), all,
			append(opts, httplimit.WithPolicies("route"))...)
		w := httptest.NewRecorder()
		outer.Handler(inner.Handler(http.NotFoundHandler())).ServeHTTP(w, get(t))
		status(t, w, http.StatusNotFound)
		header(t, w.Header(), map[string]string{
			"RateLimit":        test.want[0],
			"RateLimit-Policy": fmt.Sprintf(`"all";q=%d;w=60 | "route";q=%d;w=1`, test.outer, test.inner),
			"RateLimit-Limit":  test.want[1], "RateLimit-Remaining": test.want[2],
			"X-RateLimit-Limit": test.want[1], "X-RateLimit-Remaining": test.want[2],
		})
		if lines := w.Header()["Access-Control-Expose-Headers"]; len(lines) != 1 {
			t.Errorf("exposed twice: %q", lines)
		}
	}
	// A refusal binds, whatever is left of the limit around it.
	outer := newMiddleware(t, newMemory(t, 1, time.Minute), all, opts...)
	refused := limit.Result{Limit: 9, Remaining: 5, RetryAfter: time.Second}
	inner := newMiddleware(t, says(refused, nil), all, opts...)
	w := httptest.NewRecorder()
	outer.Handler(inner.Handler(ignore)).ServeHTTP(w, get(t))
	header(t, w.Header(), map[string]string{"X-RateLimit-Limit": "9", "RateLimit-Limit": "9"})
	status(t, visit(outer, get(t)), http.StatusTooManyRequests) // the refused request has taken its permit
}

// For all names and numbers a RetryAfterTransport reads the time that a Middleware wrote, and the problem
// document is JSON with the same names.
func FuzzFields(f *testing.F) {
	f.Add("burst", `say "hi" \ there`, int64(100), int64(time.Minute), int64(30*time.Second))
	f.Add("a", "b", int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Add(",;=", "\\", int64(1), int64(-1), int64(math.MinInt64))
	f.Add("é", "\n", int64(0), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, first, second string, most, interval, after int64) {
		one := limit.Result{Limit: most, Interval: time.Duration(interval), RetryAfter: time.Duration(after)}
		result := limit.Result{Each: []limit.Result{one, one}}
		m, err := httplimit.New(says(result, nil), all, httplimit.WithPolicies(first, second))
		if err != nil {
			return // TestInvalidArguments has these names
		}
		w := visit(m, get(t))
		var p problem
		redistest.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
		if !slices.Equal(p.Violated, []string{first, second}) {
			t.Errorf("%q, want %q and %q", p.Violated, first, second)
		}
		seconds := redistest.Must(strconv.Atoi(w.Header().Get("Retry-After")))(t)
		want := time.Duration(min(seconds, 1e9)) * time.Second // the most that is read
		got, ok := httplimit.ReadDraft11(w.Header().Get("RateLimit"))
		if item := most > 0 || interval > 0; ok != item || ok && after > 0 && got != want {
			t.Errorf("%s: %v, %v, want %v", w.Header().Get("RateLimit"), got, ok, want)
		}
	})
}
