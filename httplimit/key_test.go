package httplimit_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// The key of a header's value is the hash that the documentation says, so that another
// program can compute it.
func TestByHeader(t *testing.T) {
	key := httplimit.ByHeader("x-api-KEY")
	request := func(values ...string) *http.Request {
		r := get(t)
		for _, value := range values {
			r.Header.Add("X-Api-Key", value)
		}
		return r
	}
	for _, value := range []string{"k", "{}", strings.Repeat("long", 10_000), "\x00 é"} {
		got, err := key(request(value))
		sum := sha256.Sum256([]byte("x-api-key:" + value))
		if want := hex.EncodeToString(sum[:16]); err != nil || got != want {
			t.Errorf("%.9q: %q, %v, want %q", value, got, err, want)
		}
	}
	for _, values := range [][]string{nil, {""}, {"a", "b"}, {"a", "a"}} {
		if got, err := key(request(values...)); !errors.Is(err, httplimit.ErrNoKey) || got != "" {
			t.Errorf("%q: %q, %v, want ErrNoKey", values, got, err)
		}
	}
	other, err := httplimit.ByHeader("Authorization")(&http.Request{
		Header: http.Header{"Authorization": {"k"}},
	})
	if same, _ := key(request("k")); err != nil || other == same {
		t.Errorf("two fields, one key: %q %v", other, err)
	}
}

// A value that the limiter would refuse as a key is limited as any other, and nobody has
// the limit of another.
func TestHostileHeaders(t *testing.T) {
	const rate = 2
	memory := newMemory(rate, time.Hour)
	m := newMiddleware(t, memory, httplimit.ByHeader("X-Api-Key"))
	for _, value := range []string{"{a}", strings.Repeat("x", 4096), "a:b", "ok", "OK", "ok "} {
		for i := range rate + 1 {
			r := get(t)
			r.Header["X-Api-Key"] = []string{value}
			want := http.StatusOK
			if i == rate {
				want = http.StatusTooManyRequests
			}
			status(t, visit(m, r), want)
		}
	}
}

func TestByRoute(t *testing.T) {
	var keys []string
	byRoute := httplimit.ByRoute()
	m := newMiddleware(t, newMemory(100, time.Hour), func(r *http.Request) (string, error) {
		key, err := byRoute(r)
		keys = append(keys, key)
		return key, err
	})
	mux := http.NewServeMux()
	for _, pattern := range []string{"GET /users/{id}", "/{path...}", "/exact/{$}"} {
		mux.Handle(pattern, m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	}
	for _, path := range []string{"/users/7", "/users/8", "/other/x", "/exact/"} {
		r := get(t)
		r.URL.Path = path
		mux.ServeHTTP(httptest.NewRecorder(), r)
	}
	want := "GET /users/<id>|GET /users/<id>|/<path...>|/exact/<$>"
	if got := strings.Join(keys, "|"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if key, err := byRoute(get(t)); !errors.Is(err, httplimit.ErrNoKey) {
		t.Errorf("outside of a mux: %q, %v", key, err)
	}
}

func TestByHost(t *testing.T) {
	for _, test := range []struct{ url, want string }{
		{"https://API.example.com/x", "api.example.com"}, {"http://a:8080", "a:8080"},
	} {
		r := redistest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, test.url, nil))(t)
		if got, err := httplimit.ByHost()(r); got != test.want || err != nil {
			t.Errorf("%s: %q, %v", test.url, got, err)
		}
	}
	for _, r := range []*http.Request{{}, get(t)} {
		r.URL = nil
		if got, err := httplimit.ByHost()(r); !errors.Is(err, httplimit.ErrNoKey) {
			t.Errorf("no host: %q, %v", got, err)
		}
	}
}

// FirstOf goes on where there is no key, and only there.
func TestFirstOf(t *testing.T) {
	says := func(key string, err error) httplimit.KeyFunc {
		return func(*http.Request) (string, error) { return key, err }
	}
	none, a, b := says("", httplimit.ErrNoKey), says("a", nil), says("b", nil)
	for name, test := range map[string]struct {
		keys []httplimit.KeyFunc
		want string
		err  error
	}{
		"the first":            {[]httplimit.KeyFunc{a, b}, "a", nil},
		"the second":           {[]httplimit.KeyFunc{none, b}, "b", nil},
		"an empty key is none": {[]httplimit.KeyFunc{says("", nil), b}, "b", nil},
		"none":                 {[]httplimit.KeyFunc{none, none}, "", httplimit.ErrNoKey},
		"no limit": {
			[]httplimit.KeyFunc{says("", httplimit.ErrNoLimit), b}, "", httplimit.ErrNoLimit},
		"an error is no none": {[]httplimit.KeyFunc{says("", errSecret), b}, "", errSecret},
	} {
		key := redistest.Must(httplimit.FirstOf(test.keys...))(t)
		if got, err := key(get(t)); got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: %q, %v, want %q, %v", name, got, err, test.want, test.err)
		}
	}
}
