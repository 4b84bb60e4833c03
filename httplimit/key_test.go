package httplimit_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

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
	mux := http.NewServeMux()
	for _, pattern := range []string{"GET /users/{id}", "/{path...}", "/exact/{$}"} {
		mux.HandleFunc(pattern, func(_ http.ResponseWriter, r *http.Request) {
			keys = append(keys, redistest.Must(byRoute(r))(t))
		})
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

// addressOf returns the key for a request from remote with lines of X-Forwarded-For.
func addressOf(t *testing.T, key httplimit.KeyFunc, remote string, forwarded ...string) string {
	t.Helper()
	r := get(t)
	r.RemoteAddr = remote
	if forwarded != nil {
		r.Header["X-Forwarded-For"] = slices.Clone(forwarded)
	}
	got, err := key(r)
	if err != nil {
		if !errors.Is(err, httplimit.ErrNoKey) || got != "" {
			t.Errorf("%q, %v", got, err)
		}
		return "none"
	}
	if !slices.Equal(r.Header["X-Forwarded-For"], forwarded) {
		t.Errorf("the request was changed: %q", r.Header)
	}
	return got
}

// The key is the address of the connection, whatever the visitor writes.
func TestByAddress(t *testing.T) {
	for remote, want := range map[string]string{
		"203.0.113.7:4711":           "203.0.113.7",
		"203.0.113.7":                "203.0.113.7",
		"[::ffff:203.0.113.7]:4711":  "203.0.113.7",
		"[2001:db8:1:2:3:4:5:6]:80":  "2001:db8:1:2::/64",
		"[2001:db8:1:2:ffff::]:4711": "2001:db8:1:2::/64",
		"[2001:db8:1:3::1]:4711":     "2001:db8:1:3::/64",
		"[fe80::1%eth0]:80":          "fe80::/64",
		"2001:db8::1":                "2001:db8::/64",
		"[2001:db8::1]":              "2001:db8::/64",
		"@":                          "unix",
		"/run/proxy.sock":            "unix",
		"":                           "none",
		"example.com:80":             "none",
		"[::1":                       "none",
	} {
		got := addressOf(t, httplimit.ByAddress(), remote, "198.51.100.1")
		if got != want {
			t.Errorf("%q: %q, want %q", remote, got, want)
		}
	}
}

const (
	proxy   = "10.0.0.1:80" // the RemoteAddr of a trusted proxy
	visitor = "203.0.113.7" // the key of the visitor
)

// The key is the first address from the right that is not a listed proxy.
func TestByAddressVia(t *testing.T) {
	key := redistest.Must(httplimit.ByAddressVia("10.0.0.0/8", "192.0.2.1", "2001:db8:aaaa::/48", "fe80::/64",
		"::ffff:192.0.2.9"))(t)
	for name, test := range map[string]struct {
		remote    string
		forwarded []string
		want      string
	}{
		"not through a proxy":       {"203.0.113.7:80", []string{"198.51.100.1"}, visitor},
		"one proxy":                 {proxy, []string{"203.0.113.7"}, visitor},
		"a visitor wrote something": {proxy, []string{"198.51.100.1, 203.0.113.7"}, visitor},
		"a visitor wrote a proxy":   {proxy, []string{"10.9.9.9, 203.0.113.7"}, visitor},
		"a visitor wrote rubbish":   {proxy, []string{"<script>,,203.0.113.7"}, visitor},
		"two proxies":               {proxy, []string{"203.0.113.7, 192.0.2.1"}, visitor},
		"a proxy as IPv6":           {proxy, []string{"203.0.113.7, ::ffff:10.1.1.1"}, visitor},
		"three lines": {
			proxy, []string{"198.51.100.1", "203.0.113.7, 10.1.1.1", "192.0.2.1"}, visitor},
		"a proxy named as IPv6":   {proxy, []string{"203.0.113.7, 192.0.2.9"}, visitor},
		"an empty entry first":    {proxy, []string{"203.0.113.7", ",10.0.0.2"}, "10.0.0.2"},
		"a proxy with a zone":     {"[fe80::1%eth0]:80", []string{"203.0.113.7"}, visitor},
		"IPv6 behind IPv6":        {"[2001:db8:aaaa::1]:80", []string{"2001:db8:1::3"}, "2001:db8:1::/64"},
		"with ports":              {proxy, []string{"203.0.113.7:4711"}, visitor},
		"IPv6 with a port":        {proxy, []string{"[2001:db8:1:2::3]:4711"}, "2001:db8:1:2::/64"},
		"no field":                {proxy, nil, "10.0.0.1"},
		"an empty field":          {proxy, []string{""}, "10.0.0.1"},
		"rubbish of a proxy":      {proxy, []string{"203.0.113.7, unknown"}, "10.0.0.1"},
		"rubbish of another":      {proxy, []string{"203.0.113.7, unknown, 10.0.0.2"}, "10.0.0.2"},
		"an empty entry":          {proxy, []string{"203.0.113.7,"}, "10.0.0.1"},
		"an empty line":           {proxy, []string{"203.0.113.7", ""}, "10.0.0.1"},
		"all are proxies":         {proxy, []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		"blanks":                  {proxy, []string{" \t203.0.113.7 ,  10.0.0.2 "}, visitor},
		"a Unix socket":           {"@", []string{"198.51.100.1, 203.0.113.7"}, visitor},
		"a socket, then a proxy":  {"@", []string{"203.0.113.7, 10.0.0.2"}, visitor},
		"a Unix socket, no field": {"@", nil, "unix"},
		"no address":              {"example.com:80", []string{"203.0.113.7"}, "none"},
	} {
		if got := addressOf(t, key, test.remote, test.forwarded...); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// The key is the nth address from the right.
func TestByAddressViaCount(t *testing.T) {
	for name, test := range map[string]struct {
		n         int
		remote    string
		forwarded []string
		want      string
	}{
		"one":             {1, proxy, []string{"198.51.100.1, 203.0.113.7"}, visitor},
		"two":             {2, proxy, []string{"198.51.100.1, 203.0.113.7", "10.0.0.2"}, visitor},
		"fewer than that": {3, proxy, []string{"203.0.113.7, 10.0.0.2"}, visitor},
		"no field":        {1, proxy, nil, "10.0.0.1"},
		"rubbish":         {2, proxy, []string{"unknown, 10.0.0.2"}, "10.0.0.2"},
		"no address":      {1, "@", []string{"203.0.113.7"}, visitor},
		"nothing at all":  {1, "", nil, "none"},
		"a Unix socket":   {1, "@", nil, "unix"},
	} {
		key := redistest.Must(httplimit.ByAddressViaCount(test.n))(t)
		if got := addressOf(t, key, test.remote, test.forwarded...); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// Whatever a visitor writes, the key is the address that the trusted proxy appended.
func FuzzForwardedFor(f *testing.F) {
	f.Add("10.0.0.1")
	f.Add("203.0.113.9, 10.0.0.1,")
	f.Add(",\"[::1]:80\"")
	via := redistest.Must(httplimit.ByAddressVia("10.0.0.0/8"))(f)
	count := redistest.Must(httplimit.ByAddressViaCount(1))(f)
	f.Fuzz(func(t *testing.T, written string) {
		for _, key := range []httplimit.KeyFunc{via, count} {
			for _, lines := range [][]string{{written + ", 203.0.113.7"}, {written, "203.0.113.7"}} {
				if got := addressOf(t, key, "10.0.0.1:80", lines...); got != "203.0.113.7" {
					t.Errorf("%q: %q", lines, got)
				}
			}
			got, err := key(&http.Request{RemoteAddr: written})
			if err == nil && strings.ContainsAny(got, "{} %") {
				t.Errorf("%q: %q", written, got)
			}
		}
	})
}
