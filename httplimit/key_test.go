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

// The key of a header's value is the documented hash, so that another program can compute it.
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
	if host, err := httplimit.ByHeader("host")(&http.Request{Host: "example.com"}); err != nil || host == "" {
		t.Errorf("the host: %q, %v", host, err)
	}
}

func TestByRoute(t *testing.T) {
	var keys []string
	byRoute := httplimit.ByRoute()
	m := newMiddleware(t, newMemory(t, 100, time.Hour), func(r *http.Request) (string, error) {
		key, err := byRoute(r)
		keys = append(keys, key)
		return key, err
	})
	mux := http.NewServeMux()
	for _, pattern := range []string{"GET /users/{id}", "/{path...}", "/exact/{$}"} {
		mux.Handle(pattern, m.Handler(ignore))
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
	for url, want := range map[string]string{
		"https://API.example.com/x": "api.example.com", "http://a:8080": "a:8080",
	} {
		got, err := httplimit.ByHost()(outgoing(t, http.MethodGet, url, nil))
		if got != want || err != nil {
			t.Errorf("%s: %q, %v", url, got, err)
		}
	}
	for _, r := range []*http.Request{{}, get(t)} {
		r.URL = nil
		if got, err := httplimit.ByHost()(r); !errors.Is(err, httplimit.ErrNoKey) {
			t.Errorf("no host: %q, %v", got, err)
		}
	}
}

// FirstOf tries the next key only if there is no key.
func TestFirstOf(t *testing.T) {
	none, a, b := keyIs("", httplimit.ErrNoKey), keyIs("a", nil), keyIs("b", nil)
	for name, test := range map[string]struct {
		keys []httplimit.KeyFunc
		want string
		err  error
	}{
		"the first":            {[]httplimit.KeyFunc{a, b}, "a", nil},
		"the second":           {[]httplimit.KeyFunc{none, b}, "b", nil},
		"an empty key is none": {[]httplimit.KeyFunc{keyIs("", nil), b}, "b", nil},
		"none":                 {[]httplimit.KeyFunc{none, none}, "", httplimit.ErrNoKey},
		"no limit": {
			[]httplimit.KeyFunc{keyIs("", httplimit.ErrNoLimit), b}, "", httplimit.ErrNoLimit},
		"an error stops": {[]httplimit.KeyFunc{keyIs("", errSecret), b}, "", errSecret},
	} {
		key := redistest.Must(httplimit.FirstOf(test.keys...))(t)
		if got, err := key(get(t)); got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: %q, %v, want %q, %v", name, got, err, test.want, test.err)
		}
	}
}
