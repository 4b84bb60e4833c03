package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
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

// From another web site by a name of its own (DNS rebinding) nothing can be read.
func TestHosts(t *testing.T) {
	h := handler(t, mini(t), web.Config{Hosts: []string{"localhost", "127.0.0.1", "::1"}})
	for host, want := range map[string]int{
		"localhost": 200, "localhost:8380": 200, "LOCALHOST:80": 200, "127.0.0.1:8380": 200,
		"[::1]:8380": 200, "[::1]": 200,
		"evil.example": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example:8380": 421, "": 421,
		"0.0.0.0": 421,
	} {
		for _, target := range []string{"/", "/static/page.js"} {
			if w := get(h, target, func(r *http.Request) { r.Host = host }); w.Code != want {
				t.Errorf("%s of %q: %d, want %d", target, host, w.Code, want)
			}
		}
	}
}

// basic is a token as a browser sends it.
func basic(token string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth("anybody", token) }
}

// With Private nothing is read without the token.
func TestPrivate(t *testing.T) {
	rdb := mini(t)
	limiter(t, rdb, "orders", 10)
	h := handler(t, rdb, web.Config{Private: true, Token: token})
	for _, target := range []string{"/", page("/limiter", "orders"), page("/live", "orders"),
		"/static/page.js"} {
		w := get(h, target)
		if w.Code != http.StatusUnauthorized ||
			!strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Basic ") ||
			strings.Contains(w.Body.String(), "orders") {
			t.Errorf("%s without a token: %d, %v\n%s", target, w.Code, w.Header(), w.Body)
		}
	}
	if w := get(h, "/", basic("a wrong token, and long")); w.Code != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", w.Code)
	}
	if w := get(h, "/", basic(token)); w.Code != http.StatusOK ||
		!strings.Contains(w.Body.String(), "orders") {
		t.Errorf("the token: %d", w.Code)
	}
}

// After five wrong tokens an address must wait, whatever it sends then. Others need not.
func TestGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handler(t, mini(t), web.Config{Private: true, Token: token})
		from := func(address, token string) int {
			return get(h, "/", basic(token), func(r *http.Request) { r.RemoteAddr = address }).Code
		}
		for i := range 5 {
			if code := from("192.0.2.1:1000", "wrong"); code != http.StatusUnauthorized {
				t.Errorf("guess %d: %d", i, code)
			}
		}
		for _, guess := range []string{"wrong", token} {
			if code := from("192.0.2.1:1001", guess); code != http.StatusTooManyRequests {
				t.Errorf("%q after five guesses: %d", guess, code)
			}
		}
		if code := from("192.0.2.2:1000", token); code != http.StatusOK {
			t.Errorf("another address: %d", code)
		}
		time.Sleep(time.Minute)
		if code := from("192.0.2.1:1000", token); code != http.StatusOK {
			t.Errorf("a minute later: %d", code)
		}
		// The addresses of one customer are one address.
		for i := range 6 {
			want := http.StatusUnauthorized
			if i == 5 {
				want = http.StatusTooManyRequests
			}
			if code := from("[2001:db8::"+string(rune('1'+i))+"]:80", "wrong"); code != want {
				t.Errorf("guess %d by IPv6: %d, want %d", i, code, want)
			}
		}
	})
}

// A rate is set with the token. Permits that are taken stay counted, and the next page shows it.
func TestSetRate(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	l := limiter(t, rdb, "orders", 10)
	take(t, l, 4)
	h := handler(t, rdb, web.Config{AllowChanges: true, Token: token})
	get(h, page("/change", "orders"))
	w := post(h, page("/change/rate", "orders"), url.Values{
		"token": {token}, "rate": {"20"}, "interval": {"30m"}, "keep_alive": {"1h"}, "keep_state": {"1"},
	})
	if to := w.Header().Get("Location"); w.Code != http.StatusSeeOther ||
		to != page("/limiter", "orders")+"&done=rate" {
		t.Fatalf("%d, %q\n%s", w.Code, to, w.Body)
	}
	c, err := l.Config(t.Context())
	if err != nil || c.Rate != 20 || c.Interval != 30*time.Minute || c.KeepAlive != time.Hour {
		t.Errorf("%+v, %v", c, err)
	}
	if n, err := l.AvailablePermits(t.Context()); n != 16 || err != nil {
		t.Errorf("%d permits are left, %v; want 16", n, err)
	}
	body := get(h, page("/limiter", "orders")+"&done=rate").Body.String()
	if !strings.Contains(body, "The rate is set.") || !strings.Contains(body, "20 permits") {
		t.Errorf("the page after it:\n%s", body)
	}
}

// A limiter is repaired with the token.
func TestRepair(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	take(t, limiter(t, rdb, "orders", 10), 4)
	value := wire.KeysOf("orders", "").Pairs[0].Value
	rdb.DecrBy(t.Context(), value, 2)
	h := handler(t, rdb, web.Config{AllowChanges: true, Token: token})
	w := post(h, page("/change/repair", "orders"), url.Values{"token": {token}})
	if w.Code != http.StatusSeeOther {
		t.Errorf("%d\n%s", w.Code, w.Body)
	}
	if n, _ := rdb.Get(t.Context(), value).Int(); n != 6 {
		t.Errorf("the value is %d, want 6", n)
	}
}

// A limiter is deleted with the token, by who types its name.
func TestDelete(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	const name = "orders\n<1>"
	take(t, limiter(t, rdb, name, 10), 4)
	h := handler(t, rdb, web.Config{AllowChanges: true, Token: token})
	w := post(h, page("/change/delete", name), url.Values{"token": {token}, "confirm": {"orders"}})
	if w.Code != http.StatusBadRequest ||
		!strings.Contains(w.Body.String(), "The name that was typed is another one.") {
		t.Errorf("by another name: %d\n%s", w.Code, w.Body)
	}
	w = post(h, page("/change/delete", name), url.Values{"token": {token}, "confirm": {`orders\n<1>`}})
	if to := w.Header().Get("Location"); w.Code != http.StatusSeeOther || to != "/?done=delete" {
		t.Errorf("%d, %q\n%s", w.Code, to, w.Body)
	}
	if n, _ := rdb.DBSize(t.Context()).Result(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// The client that is looked at is the one that is repaired.
func TestRepairOfAClient(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	perClient(t, rdb, "orders", "pod-1", 3)
	value := wire.KeysOf("orders", "pod-1").Pairs[1].Value
	rdb.DecrBy(t.Context(), value, 2)
	h := handler(t, rdb, web.Config{AllowChanges: true, Token: token})
	if w := post(h, page("/change/repair", "orders")+"&id=pod-1",
		url.Values{"token": {token}}); w.Code != http.StatusSeeOther {
		t.Errorf("%d\n%s", w.Code, w.Body)
	}
	if n, _ := rdb.Get(t.Context(), value).Int(); n != 7 {
		t.Errorf("the value is %d, want 7", n)
	}
}

// Whatever is wrong with a change, nothing is changed, and the page says why.
func TestRefusedChanges(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	limiter(t, rdb, "orders", 10)
	const others, text = "a hash of others", "a string of others"
	rdb.HSet(t.Context(), others, "field", 1)
	rdb.Set(t.Context(), text, 1, 0)
	before := dump(t, rdb)
	with := func(change func(url.Values)) url.Values {
		form := url.Values{"token": {token}, "rate": {"20"}, "interval": {"30s"}, "confirm": {"orders"}}
		change(form)
		return form
	}
	set := func(name, value string) url.Values { return with(func(f url.Values) { f.Set(name, value) }) }
	all := set("any", "")
	open := web.Config{AllowChanges: true, Token: token, Match: "*o*"}
	rate, remove := page("/change/rate", "orders"), page("/change/delete", "orders")
	for what, c := range map[string]struct {
		config web.Config
		path   string
		form   url.Values
		mod    func(*http.Request)
		code   int
		says   string
	}{
		"not allowed":      {web.Config{}, rate, all, nil, 403, "It changes none."},
		"no token":         {open, rate, set("token", ""), nil, 403, "The token is wrong."},
		"wrong token":      {open, remove, set("token", "no"), nil, 403, "The token is wrong."},
		"no number":        {open, rate, set("rate", "ten"), nil, 400, "must be a whole number"},
		"rate 0":           {open, rate, set("rate", "0"), nil, 400, "rate is 0, must be between 1"},
		"no interval":      {open, rate, set("interval", "5"), nil, 400, "must be a duration"},
		"interval 0":       {open, rate, set("interval", "0s"), nil, 400, "interval is 0s, must be"},
		"short keep alive": {open, rate, set("keep_alive", "1s"), nil, 400, "at least the interval"},
		"not there":        {open, page("/change/rate", "no"), all, nil, 404, "There is no limiter"},
		"not to be seen":   {open, page("/change/rate", "x"), all, nil, 404, "There is no limiter"},
		"not a limiter":    {open, page("/change/rate", others), all, nil, 404, "There is no limiter"},
		"a string":         {open, page("/change/delete", text), all, nil, 409, "Another program"},
		"another site":     {open, rate, all, header("Sec-Fetch-Site", "cross-site"), 403, ""},
		"another origin":   {open, rate, all, header("Origin", "https://evil.example"), 403, ""},
		"too long":         {open, rate, set("rate", strings.Repeat("1", 1<<20)), nil, 400, "cannot be read"},
	} {
		if c.mod == nil {
			c.mod = func(*http.Request) {}
		}
		w := post(handler(t, rdb, c.config), c.path, c.form, c.mod)
		body := w.Body.String()
		if w.Code != c.code || !strings.Contains(body, c.says) || strings.Contains(body, token) {
			t.Errorf("%s: %d, want %d, %q\n%s", what, w.Code, c.code, c.says, body)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		r, _ := http.NewRequest(method, "http://localhost"+page("/change/rate", "orders"), nil)
		if w := do(handler(t, rdb, open), r); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
	if after := dump(t, rdb); !slices.Equal(before, after) {
		t.Errorf("something was changed: %v, before %v", after, before)
	}
	body := get(handler(t, rdb, web.Config{}), page("/limiter", "orders")).Body.String()
	if strings.Contains(body, "/change") {
		t.Error("the page leads to changes that are not allowed")
	}
}

// dump returns the keys and what their values are.
func dump(t *testing.T, rdb *redis.Client) (all []string) {
	t.Helper()
	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		all = append(all, key+"="+rdb.Dump(t.Context(), key).Val())
	}
	slices.Sort(all)
	return all
}

// A masked site notes whatever its server sends.
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

// With masks no name and no id leaves the server, in no response.
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
	// Nor can one ask whether a guess is right.
	for _, guess := range []string{"/?match=cust*", page("/limiter", "reports"), page("/live", "reports")} {
		if code, _ := m.ask(guess); code != http.StatusForbidden && code != http.StatusNotFound {
			t.Errorf("%s: %d", guess, code)
		}
	}
	s.Stop()
	redistest.Until(t, "Redis is away", func() error {
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
	for _, finding := range []string{"PERSIST {", "no integer", "is left from another type"} {
		if !strings.Contains(all, finding) {
			t.Errorf("no finding says %q", finding)
		}
	}
}

// Another process has other masks: what was seen of one says nothing about the other.
func TestMasksEndWithProcess(t *testing.T) {
	rdb := mini(t)
	limiter(t, rdb, "orders", 10)
	one, other := handler(t, rdb, web.Config{Mask: true}), handler(t, rdb, web.Config{Mask: true})
	link := regexp.MustCompile(`/limiter\?name=\w{16}`).FindString(get(one, "/").Body.String())
	if w := get(one, link); w.Code != http.StatusOK {
		t.Errorf("%s: %d", link, w.Code)
	}
	if w := get(other, link); w.Code != http.StatusNotFound {
		t.Errorf("%s of another process: %d", link, w.Code)
	}
}

// A limiter whose name is huge costs a page no more than another, and viewers who take nothing hold up
// neither memory nor others: so many pages are on their way at most.
func TestAHugeNameAndViewersWhoDoNotRead(t *testing.T) {
	t.Parallel()
	rdb := mini(t)
	limiter(t, rdb, "orders", 10)
	limiter(t, rdb, strings.Repeat("<", 1<<20), 10)
	h := handler(t, rdb, web.Config{Viewers: 2})
	w := get(h, "/")
	if body := w.Body.String(); w.Code != http.StatusOK || len(body) > 10_000 ||
		!strings.Contains(body, "orders") || !strings.Contains(body, "&lt;&lt;") {
		t.Errorf("%d, %d bytes", w.Code, len(body))
	}
	release := make(chan struct{})
	var viewers sync.WaitGroup
	stuck := make(chan struct{}, 2)
	for range 2 {
		viewers.Go(func() {
			viewer := &deaf{httptest.NewRecorder(), stuck, release}
			h.ServeHTTP(viewer, httptest.NewRequest(http.MethodGet, "/", nil))
		})
	}
	<-stuck
	<-stuck
	if w := get(h, "/"); w.Code != http.StatusServiceUnavailable || w.Body.Len() > 100 {
		t.Errorf("the third viewer: %d, %d bytes", w.Code, w.Body.Len())
	}
	close(release)
	viewers.Wait()
	if w := get(h, "/"); w.Code != http.StatusOK {
		t.Errorf("when they have gone: %d", w.Code)
	}
}

// A deaf is a viewer who takes nothing until it is released.
type deaf struct {
	*httptest.ResponseRecorder
	stuck   chan<- struct{}
	release <-chan struct{}
}

func (d *deaf) Write(b []byte) (int, error) {
	d.stuck <- struct{}{}
	<-d.release
	return d.ResponseRecorder.Write(b)
}
