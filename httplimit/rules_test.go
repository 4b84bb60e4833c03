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
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/rules"
)

// newRules returns a Middleware of the rules of a file. The user is who a field says.
func newRules(t *testing.T, text string, opts ...httplimit.Option) *httplimit.Middleware {
	t.Helper()
	set := redistest.Must(rules.Parse([]byte(text)))(t)
	r := redistest.Must(rules.New(rules.InMemory(), set))(t)
	m := redistest.Must(httplimit.NewRules(r, userField, opts...))(t)
	return m
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

// to returns a request of a user, empty for nobody.
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

func TestRulesAreShownByTheirNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newRules(t, twoRules)
		w := visit(m, to(t, "/search", "secret"))
		status(t, w, http.StatusOK)
		header(t, w.Header(), map[string]string{
			"RateLimit-Policy": `"search/burst";q=1;w=1, "search/day";q=3;w=86400`,
			"RateLimit":        `"search/burst";r=0;t=1, "search/day";r=2;t=86400`,
		})
		w = visit(m, to(t, "/search", "secret"))
		status(t, w, http.StatusTooManyRequests)
		header(t, w.Header(), map[string]string{"Retry-After": "1"})
		wantBody := `"violated-policies":["search/burst"]}`
		if body := w.Body.String(); !strings.Contains(body, wantBody) {
			t.Errorf("%s, want %s in it", body, wantBody)
		}
		status(t, visit(m, to(t, "/search", "other")), http.StatusOK)
	})
}

func TestRulesKnowWhoHasNoUser(t *testing.T) {
	m := newRules(t, twoRules)
	for _, path := range []string{"/", "/search"} {
		r := to(t, path, "")
		r.RemoteAddr = "192.0.2.1:1234"
		want := http.StatusOK
		if path == "/search" {
			want = http.StatusTooManyRequests // the same address, and the same rule
		}
		w := visit(m, r)
		status(t, w, want)
		header(t, w.Header(), map[string]string{"RateLimit-Policy": `"visitor";q=1;w=60`})
	}
	// Of users there is no rule for "/".
	w := visit(m, to(t, "/", "secret"))
	status(t, w, http.StatusOK)
	header(t, w.Header(), map[string]string{"RateLimit-Policy": "", "RateLimit": ""})
}

func TestErrorsOfRules(t *testing.T) {
	var told []error
	m := newRules(t, twoRules, httplimit.WithErrorHook(func(_ *http.Request, d httplimit.Decision) {
		told = append(told, d.Err)
	}))
	unix := to(t, "/", "")
	unix.RemoteAddr = "@"
	for _, test := range []struct {
		request *http.Request
		status  int
		err     error
	}{
		{to(t, "/tenant", "alice"), http.StatusBadRequest, limit.ErrInvalidArgument},
		{to(t, "/search", "unknown"), http.StatusServiceUnavailable, errSecret},
		{to(t, "/search", "unlimited"), http.StatusOK, nil},
		{unix, http.StatusBadRequest, httplimit.ErrNoKey},
	} {
		told = nil
		status(t, visit(m, test.request), test.status)
		if err := errors.Join(told...); !errors.Is(err, test.err) {
			t.Errorf("%s: %v, want %v", test.request.URL, err, test.err)
		}
	}
}

// Who can spoil what says who he is would not be limited otherwise.
func TestAFallbackIsNotForUsersThatFail(t *testing.T) {
	fails := func(*http.Request) (string, error) { return "", fmt.Errorf("bad token: %w", errSecret) }
	var told error
	m := newRules(t, twoRules, httplimit.WithFallback(httplimit.FallbackAllow), httplimit.WithAddress(fails),
		httplimit.WithErrorHook(func(_ *http.Request, d httplimit.Decision) { told = d.Err }))
	for what, request := range map[string]*http.Request{
		"user": to(t, "/search", "unknown"), "address": to(t, "/", ""),
	} {
		told = nil
		status(t, visit(m, request), http.StatusServiceUnavailable)
		if !errors.Is(told, errSecret) {
			t.Errorf("%s: told %v, want %v", what, told, errSecret)
		}
	}
}

func TestOptionsWorkWithRules(t *testing.T) {
	address := func(*http.Request) (string, error) { return "192.0.2.7", nil }
	refused := 0
	m := newRules(t, twoRules, httplimit.WithShadow(), httplimit.WithAddress(address),
		httplimit.WithRefusedHook(func(_ *http.Request, d httplimit.Decision) {
			if refused++; d.Result.Name != "visitor:192.0.2.7" || d.Cost != 1 {
				t.Errorf("%+v", d)
			}
		}))
	for range 3 {
		w := visit(m, to(t, "/", ""))
		status(t, w, http.StatusOK)
		header(t, w.Header(), map[string]string{"RateLimit": ""})
	}
	if refused != 2 {
		t.Errorf("%d refused, want 2", refused)
	}
	costly := newRules(t, twoRules, httplimit.WithCost(func(*http.Request) (int64, error) { return 2, nil }),
		httplimit.WithAddress(address))
	status(t, visit(costly, to(t, "/", "")), http.StatusBadRequest)
	for what, err := range map[string]error{
		"rules":   second(httplimit.NewRules(nil, nil)),
		"option":  second(httplimit.NewRules(&holding{}, nil, nil)),
		"address": second(httplimit.NewRules(&holding{}, nil, httplimit.WithAddress(nil))),
	} {
		if !errors.Is(err, limit.ErrInvalidArgument) {
			t.Errorf("%s: %v, want ErrInvalidArgument", what, err)
		}
	}
}

func second(_ *httplimit.Middleware, err error) error { return err }

// A holding is Rules of which a request holds a permit as long as it runs.
type holding struct {
	held  int
	fails error // of done
}

func (h *holding) AllowRequest(
	_ context.Context, _ *http.Request, _, _ func(*http.Request) (string, error), _ int64,
) (limit.Result, func(context.Context) error, error) {
	h.held++
	return limit.Result{Allowed: true}, func(ctx context.Context) error {
		h.held--
		return errors.Join(ctx.Err(), h.fails)
	}, nil
}

func TestPermitsComeBackWhenTheRequestHasEnded(t *testing.T) {
	h := &holding{fails: errSecret}
	var told error
	m, err := httplimit.NewRules(h, nil, httplimit.WithErrorHook(func(_ *http.Request, d httplimit.Decision) {
		told = d.Err
	}))
	if err != nil {
		t.Fatal(err)
	}
	handler := m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if h.held != 1 {
			t.Errorf("%d are held in the handler, want 1", h.held)
		}
		panic(http.ErrAbortHandler)
	}))
	func() {
		defer func() { _ = recover() }()
		handler.ServeHTTP(httptest.NewRecorder(), get(t))
	}()
	if h.held != 0 || !errors.Is(told, errSecret) {
		t.Errorf("%d are held after it, told %v", h.held, told)
	}
}

// Frameworks call Admit; the server ends the context of a request when it is over.
func TestPermitsOfAdmitComeBackWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &holding{}
		m := redistest.Must(httplimit.NewRules(h, nil, httplimit.WithTimeout(time.Second)))(t)
		ctx, cancel := context.WithCancel(t.Context())
		if !m.Admit(httptest.NewRecorder(), get(t).WithContext(ctx)) || h.held != 1 {
			t.Errorf("%d are held, want 1", h.held)
		}
		cancel()
		synctest.Wait()
		if h.held != 0 {
			t.Errorf("%d are held after the request, want 0", h.held)
		}
	})
}

// A limit may have a name that no field can have.
func TestNamesOfLimitsThatCannotBeShown(t *testing.T) {
	for name, want := range map[string]string{
		"a": `"a";q=1`, `a"b`: `"a\"b";q=1`, "": `"default";q=1`,
		"a\r\nb": `"default";q=1`, "ä": `"default";q=1`,
	} {
		result := limit.Result{Allowed: true, Limit: 1, Policy: name}
		w := visit(newMiddleware(t, says(result, nil), all), get(t))
		header(t, w.Header(), map[string]string{"RateLimit-Policy": want})
	}
}

func ExampleNewRules() {
	set, err := rules.Parse([]byte(`
rules:
  - name: search
    match: {route: "GET /search", user: true}
    by: user
    limits:
      - rate: 100/1m
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	limits, err := rules.New(rules.InMemory(), set)
	if err != nil {
		fmt.Println(err)
		return
	}
	user := func(r *http.Request) (string, error) {
		name, _, _ := r.BasicAuth() // checked before
		return name, nil
	}
	m, err := httplimit.NewRules(limits, user)
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /search", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "found") })
	handler := m.Handler(mux) // around the whole mux

	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/search", nil)
	r.SetBasicAuth("alice", "")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	fmt.Println(w.Body, w.Header()["Ratelimit-Policy"])
	// Output: found ["search";q=100;w=60]
}

// A user who is looked up for longer than WithTimeout is no failure of the limiter: who can
// make that slow would get around the limit.
func TestUsersTakeTheirOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := redistest.Must(
			rules.Parse([]byte(`rules: [{name: a, by: [user, address], limits: [{rate: 1/1h}]}]`)))(t)
		r := redistest.Must(rules.New(rules.InMemory(), set))(t)
		slow := func(*http.Request) (string, error) {
			time.Sleep(time.Minute)
			return "alice", nil
		}
		for _, key := range []struct{ user, address httplimit.KeyFunc }{{slow, all}, {all, slow}} {
			m := redistest.Must(httplimit.NewRules(r, key.user, httplimit.WithAddress(key.address),
				httplimit.WithFallback(httplimit.FallbackAllow)))(t)
			status(t, visit(m, get(t)), http.StatusOK)
			status(t, visit(m, get(t)), http.StatusTooManyRequests)
		}
	})
}

// A path that takes long to read is refused, so that it does not get around a limit by the Fallback.
func TestLongPathsHaveNoFallback(t *testing.T) {
	const login = `rules: [{name: login, match: {route: /login}, limits: [{rate: 1/1h}]}]`
	m := newRules(t, login, httplimit.WithFallback(httplimit.FallbackAllow))
	status(t, visit(m, to(t, "/login", "")), http.StatusOK)
	for path, want := range map[string]int{
		"/login":                               http.StatusTooManyRequests,
		strings.Repeat("/", 8000) + "/login":   http.StatusTooManyRequests,
		strings.Repeat("/", 1<<20) + "/login":  http.StatusBadRequest,
		strings.Repeat("/.", 1<<19) + "/login": http.StatusBadRequest,
	} {
		r := to(t, "/", "")
		r.URL.Path = path
		status(t, visit(m, r), want)
	}
}

// slow are rules that take a minute to find out what to ask, and then a limiter that takes d.
type slow struct{ d time.Duration }

func (s slow) AllowRequest(
	ctx context.Context, _ *http.Request, _, _ func(*http.Request) (string, error), _ int64,
) (limit.Result, func(context.Context) error, error) {
	time.Sleep(time.Minute)
	limiter := time.NewTimer(s.d)
	defer limiter.Stop()
	select {
	case <-ctx.Done():
		return limit.Result{}, nil, ctx.Err()
	case <-limiter.C:
		return limit.Result{}, nil, ctx.Err()
	}
}

// The time that rules take before they look at the context is not the limiter's, which has the whole of its
// own.
func TestRulesAreFoundInTheirOwnTime(t *testing.T) {
	for d, want := range map[time.Duration]int{
		0: http.StatusTooManyRequests, 99 * time.Millisecond: http.StatusTooManyRequests,
		101 * time.Millisecond: http.StatusOK, // by the Fallback
	} {
		synctest.Test(t, func(t *testing.T) {
			m := redistest.Must(
				httplimit.NewRules(slow{d}, nil, httplimit.WithFallback(httplimit.FallbackAllow)))(t)
			status(t, visit(m, get(t)), want)
		})
	}
}

// silent are rules that ask who the user is, and then wait for the end of their time.
type silent struct{ early bool }

func (s silent) AllowRequest(
	ctx context.Context, r *http.Request, user, _ func(*http.Request) (string, error), _ int64,
) (limit.Result, func(context.Context) error, error) {
	if s.early {
		ctx.Done() // there is a timer then
	}
	if _, err := user(r); err != nil {
		return limit.Result{}, nil, err
	}
	<-ctx.Done()
	return limit.Result{}, nil, ctx.Err()
}

// When the user is known, the limiter has the whole of its time.
func TestTimeBeginsWhenTheUserIsKnown(t *testing.T) {
	for _, early := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			user := func(*http.Request) (string, error) {
				time.Sleep(90 * time.Millisecond)
				return "alice", nil
			}
			m := redistest.Must(httplimit.NewRules(silent{early}, user))(t)
			start := time.Now()
			status(t, visit(m, get(t)), http.StatusServiceUnavailable)
			if took := time.Since(start); took != 190*time.Millisecond {
				t.Errorf("took %v, want 190ms", took)
			}
		})
	}
}
