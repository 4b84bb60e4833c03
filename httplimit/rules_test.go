package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/rules"
)

// rulesOf returns the rules of a file, with limits in memory.
func rulesOf(t *testing.T, text string) *rules.Rules {
	t.Helper()
	return redistest.Must(rules.New(rules.InMemory(), redistest.Must(rules.Parse([]byte(text)))(t)))(t)
}

// newRules returns a Middleware of rules whose user is in the field User.
func newRules(t *testing.T, r httplimit.Rules, opts ...httplimit.Option) *httplimit.Middleware {
	t.Helper()
	return redistest.Must(httplimit.NewRules(r, userField, opts...))(t)
}

func userField(r *http.Request) (string, error) {
	switch user := r.Header.Get("User"); user {
	case "":
		return "", httplimit.ErrNoKey
	case "unlimited":
		return "", httplimit.ErrNoLimit
	case "unknown":
		return "", errSecret
	default:
		return user, nil
	}
}

// to returns a request of a user, empty for no user.
func to(t *testing.T, path, user string) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	if user != "" {
		r.Header.Set("User", user)
	}
	return r
}

const twoRules = `
rules:
  - name: search
    match: {route: GET /search, user: true}
    by: user
    limits: [{name: burst, rate: 1/1s}, {name: day, rate: 3/24h}]
  - {name: visitor, match: {user: false}, by: address, limits: [{rate: 1/1m, algorithm: fixed-window}]}
  - {name: tenant, match: {route: /tenant}, by: header X-Tenant, limits: [{rate: 1/1m}]}
`

// Each request has the limits of its rules, under their names; without a rule it has none.
func TestRulesHaveTheirLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newRules(t, rulesOf(t, twoRules))
		const policy = `"search/burst";q=1;w=1, "search/day";q=3;w=86400`
		const rate = `"search/burst";r=0;t=1, "search/day";r=2;t=86400`
		for i, step := range []struct {
			path, user   string
			status       int
			policy, rate string
		}{
			{"/search", "secret", 200, policy, rate},
			{"/search", "secret", 429, `"search/burst";q=1;w=1`, `"search/burst";r=0;t=1`},
			{"/search", "other", 200, policy, rate},
			{"/", "", 200, `"visitor";q=1;w=60`, `"visitor";r=0;t=60`},
			{"/search", "", 429, `"visitor";q=1;w=60`, `"visitor";r=0;t=60`}, // the same rule and address
			{"/", "secret", 200, "", ""},
		} {
			w := visit(m, to(t, step.path, step.user))
			t.Log("step", i)
			status(t, w, step.status)
			header(t, w.Header(), map[string]string{"RateLimit-Policy": step.policy, "RateLimit": step.rate})
			const violated = `"violated-policies":["search/burst"]}`
			if i == 1 && !strings.Contains(w.Body.String(), violated) {
				t.Errorf("%s, want %s in it", w.Body, violated)
			}
		}
	})
}

// Errors of rules, users and addresses have their statuses and reach the hook. A Fallback does not
// apply to users and addresses: a visitor with a broken one would bypass the limit.
func TestErrorsOfRules(t *testing.T) {
	var seen error
	opts := []httplimit.Option{
		httplimit.WithErrorHook(func(_ *http.Request, d httplimit.Decision) { seen = d.Err }),
		httplimit.WithFallback(httplimit.FallbackAllow),
	}
	m := newRules(t, rulesOf(t, twoRules), opts...)
	noAddress := newRules(t, rulesOf(t, twoRules),
		append(opts, httplimit.WithAddress(keyIs("", errSecret)))...)
	nowhere := to(t, "/", "")
	nowhere.RemoteAddr = ""
	for name, test := range map[string]struct {
		m       *httplimit.Middleware
		request *http.Request
		status  int
		err     error
	}{
		"no key":            {m, to(t, "/tenant", "alice"), http.StatusBadRequest, limit.ErrInvalidArgument},
		"the user fails":    {m, to(t, "/search", "unknown"), http.StatusServiceUnavailable, errSecret},
		"the address fails": {noAddress, to(t, "/", ""), http.StatusServiceUnavailable, errSecret},
		"no limit":          {m, to(t, "/search", "unlimited"), http.StatusOK, nil},
		"no address":        {m, nowhere, http.StatusBadRequest, httplimit.ErrNoKey},
	} {
		seen = nil
		status(t, visit(test.m, test.request), test.status)
		if !errors.Is(seen, test.err) {
			t.Errorf("%s: %v, want %v", name, seen, test.err)
		}
	}
}

// A holding is Rules of which a request holds a permit while it runs.
type holding struct{ held int }

func (h *holding) AllowRequest(
	_ func() context.Context, _ *http.Request, _, _ func(*http.Request) (string, error), _ int64,
) (limit.Result, *limit.Reservation, func(context.Context) error, error) {
	h.held++
	return limit.Result{Allowed: true}, nil, func(ctx context.Context) error {
		h.held--
		return errors.Join(ctx.Err(), errSecret)
	}, nil
}

// A request gives its permits back when its handler has returned, even by a panic. After Admit they come back
// when the server ends the context of the request. The hook gets the error.
func TestPermitsComeBackAfterTheRequest(t *testing.T) {
	for name, serve := range map[string]func(m *httplimit.Middleware, r *http.Request, h *holding){
		"Handler": func(m *httplimit.Middleware, r *http.Request, h *holding) {
			defer func() { _ = recover() }()
			m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				if h.held != 1 {
					t.Errorf("%d are held in the handler, want 1", h.held)
				}
				panic(http.ErrAbortHandler)
			})).ServeHTTP(httptest.NewRecorder(), r)
		},
		"Admit": func(m *httplimit.Middleware, r *http.Request, h *holding) {
			if !m.Admit(httptest.NewRecorder(), r) || h.held != 1 {
				t.Errorf("%d are held after Admit, want 1", h.held)
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := &holding{}
			var seen error
			m := newRules(t, h,
				httplimit.WithErrorHook(func(_ *http.Request, d httplimit.Decision) { seen = d.Err }))
			ctx, cancel := context.WithCancel(t.Context())
			serve(m, get(t).WithContext(ctx), h)
			cancel()
			synctest.Wait()
			if h.held != 0 || !errors.Is(seen, errSecret) {
				t.Errorf("%s: %d are held after it, the hook received %v", name, h.held, seen)
			}
		})
	}
}

// slow are Rules that find the limits of a request in a minute; the limits do not answer.
type slow struct{}

func (slow) AllowRequest(
	begin func() context.Context, _ *http.Request, _, _ func(*http.Request) (string, error), _ int64,
) (limit.Result, *limit.Reservation, func(context.Context) error, error) {
	time.Sleep(time.Minute)
	ctx := begin()
	<-ctx.Done()
	return limit.Result{}, nil, nil, ctx.Err()
}

// The timeout of the limiter begins when rules have found the limits of a request.
func TestRulesAreFoundInTheirOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		status(t, visit(newRules(t, slow{}), get(t)), http.StatusServiceUnavailable)
		if took := time.Since(began); took != time.Minute+100*time.Millisecond {
			t.Errorf("took %v, want 1m0.1s", took)
		}
	})
}
