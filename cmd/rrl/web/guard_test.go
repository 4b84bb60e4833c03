package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/cmd/rrl/web"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// Another web site can read nothing by a name of its own (DNS rebinding).
func TestHosts(t *testing.T) {
	h := handler(t, mini(t), web.Config{Hosts: []string{"localhost", "127.0.0.1", "::1"}})
	for host, want := range map[string]int{
		"localhost": 200, "localhost:8380": 200, "LOCALHOST:80": 200, "127.0.0.1:8380": 200,
		"[::1]:8380": 200, "[::1]": 200,
		"evil.example": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example:8380": 421, "": 421,
		"0.0.0.0": 421,
	} {
		for _, target := range []string{"/", "/static/page.js"} {
			get(h, target, func(r *http.Request) { r.Host = host }).is(t, want)
		}
	}
}

// basic sends a token like a browser.
func basic(token string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth("any user", token) }
}

// With a token nothing can be read without the token.
func TestPrivate(t *testing.T) {
	h, _ := orders(t, web.Config{Token: token})
	for _, target := range []string{"/", page("/limiter", "orders"), page("/live", "orders"),
		"/static/page.js"} {
		w := get(h, target)
		body, basic := w.is(t, http.StatusUnauthorized), w.Header().Get("WWW-Authenticate")
		if !strings.HasPrefix(basic, "Basic ") || strings.Contains(body, "orders") {
			t.Errorf("%s without a token: %q\n%s", target, basic, body)
		}
	}
	get(h, "/", basic("a wrong token, and long")).is(t, http.StatusUnauthorized)
	get(h, "/", basic(token)).is(t, http.StatusOK, "orders")
}

// After five wrong tokens an address must wait, whatever it sends; other addresses need not.
func TestGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handler(t, mini(t), web.Config{Token: token})
		from := func(address, token string) reply {
			return get(h, "/", basic(token), func(r *http.Request) { r.RemoteAddr = address })
		}
		for range 5 {
			from("192.0.2.1:1000", "wrong").is(t, http.StatusUnauthorized)
		}
		for _, guess := range []string{"wrong", token} {
			from("192.0.2.1:1001", guess).is(t, http.StatusTooManyRequests)
		}
		from("192.0.2.2:1000", token).is(t, http.StatusOK) // another address
		time.Sleep(time.Minute)
		from("192.0.2.1:1000", token).is(t, http.StatusOK)
		// The addresses of one IPv6 network count as one.
		for i := range 5 {
			from(fmt.Sprintf("[2001:db8::%d]:80", i+1), "wrong").is(t, http.StatusUnauthorized)
		}
		from("[2001:db8::6]:80", "wrong").is(t, http.StatusTooManyRequests)
	})
}

// A masked site records everything that its server sends.
type masked struct {
	*httptest.Server
	all strings.Builder
}

func (m *masked) ask(target string) (code int, body string) {
	w := get(m.Config.Handler, target)
	_ = w.Result().Header.Write(&m.all)
	m.all.WriteString(w.Body.String())
	return w.Code, w.Body.String()
}

// With masks no response contains a name or an id.
func TestMask(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t, func(o *redis.Options) { o.MaxRetries = -1; o.DialerRetries = 1 })
	take(t, limiter(t, rdb, "customer:{johnsmith}", 10), 1)
	perClient(t, rdb, "reports", "worker-7", 3)
	keys := wire.KeysOf("customer:{johnsmith}", "").Pairs[0]
	rdb.Set(t.Context(), keys.Value, "none", 0)
	rdb.Expire(t.Context(), keys.Permits, time.Hour) // findings that name keys
	rdb.Set(t.Context(), wire.KeysOf("reports", "").Pairs[0].Value, 1, 0)
	m := &masked{Server: site(t, rdb, web.Config{Mask: true})}

	_, list := m.ask("/")
	names := regexp.MustCompile(`/limiter\?name=(\w{16})"`).FindAllStringSubmatch(list, -1)
	if len(names) != 2 {
		t.Fatalf("%d links:\n%s", len(names), list)
	}
	for _, name := range names {
		code, body := m.ask(page("/limiter", name[1]))
		if code == http.StatusSeeOther {
			id := regexp.MustCompile(`\?id=(\w{16})&`).FindStringSubmatch(m.all.String())
			code, body = m.ask(page("/limiter", name[1]) + "&id=" + id[1])
		}
		if code != http.StatusOK || !strings.Contains(body, name[1]) {
			t.Errorf("%s: %d\n%s", name[1], code, body)
		}
		_, line := follow(t, m.URL+page("/live", name[1])).next()
		m.all.WriteString(line)
	}
	// Guesses are not confirmed.
	for _, guess := range []string{"/?match=cust*", page("/limiter", "reports"), page("/live", "reports")} {
		if code, _ := m.ask(guess); code != http.StatusForbidden && code != http.StatusNotFound {
			t.Errorf("%s: %d", guess, code)
		}
	}
	s.Stop()
	redistest.Until(t, "the page says that Redis is away", func() error {
		if code, _ := m.ask(page("/limiter", names[0][1])); code != http.StatusServiceUnavailable {
			return fmt.Errorf("code %d", code)
		}
		return nil
	})
	all := m.all.String()
	for _, secret := range []string{"customer", "johnsmith", "reports", "worker", s.Addr} {
		if strings.Contains(all, secret) {
			t.Errorf("%q has left the server:\n%s", secret, all)
		}
	}
	for _, finding := range []string{" expires in ", "no integer", "is left from another type"} {
		if !strings.Contains(all, finding) {
			t.Errorf("no finding says %q", finding)
		}
	}
}

// Another process has other masks.
func TestMasksEndWithProcess(t *testing.T) {
	rdb := mini(t)
	limiter(t, rdb, "orders", 10)
	one, other := handler(t, rdb, web.Config{Mask: true}), handler(t, rdb, web.Config{Mask: true})
	link := regexp.MustCompile(`/limiter\?name=\w{16}`).FindString(get(one, "/").Body.String())
	get(one, link).is(t, http.StatusOK)
	get(other, link).is(t, http.StatusNotFound)
}

// Neither a huge name nor many limiters make a page larger, and viewers who do not read use bounded memory:
// at most 100 pages are on their way.
func TestHugeNamesAndViewersWhoDoNotRead(t *testing.T) {
	t.Parallel()
	rdb := mini(t)
	limiter(t, rdb, "orders", 10)
	limiter(t, rdb, strings.Repeat("<", 1<<20), 10)
	h := handler(t, rdb, web.Config{})
	if body := get(h, "/").is(t, http.StatusOK, "orders", "&lt;&lt;"); len(body) > 10_000 {
		t.Errorf("%d bytes", len(body))
	}
	release := make(chan struct{})
	var viewers sync.WaitGroup
	stuck := make(chan struct{}, 100)
	for range 100 {
		viewers.Go(func() {
			h.ServeHTTP(&reader{httptest.NewRecorder(), stuck, release}, request(t.Context(), "/"))
		})
	}
	for range 100 {
		<-stuck
	}
	if next := get(h, "/").is(t, http.StatusServiceUnavailable); len(next) > 100 {
		t.Errorf("the next viewer: %d bytes", len(next))
	}
	close(release)
	viewers.Wait()
	for i := range 201 {
		rdb.HSet(t.Context(), fmt.Sprint("many:", i), "rate", 1, "interval", 1000, "type", 0)
	}
	get(h, "/?match=many:*").is(t, http.StatusOK, "200 limiters", "the search stopped at 200")
}
