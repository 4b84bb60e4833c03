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

// With Private nothing can be read without the token.
func TestPrivate(t *testing.T) {
	h, _ := orders(t, web.Config{Private: true, Token: token})
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
		h := handler(t, mini(t), web.Config{Private: true, Token: token})
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

// With the token a rate is set, a limiter is repaired, of a PER_CLIENT limiter the client of the page, and
// one is deleted whose name was typed. Permits that are taken still count against a new rate.
func TestChanges(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	const odd = "odd\n<1>"
	l := limiter(t, rdb, "orders", 10)
	take(t, l, 4)
	perClient(t, rdb, "users", "pod-1", 3)
	take(t, limiter(t, rdb, odd, 10), 4)
	h := handler(t, rdb, web.Config{AllowChanges: true, Token: token})
	posts := func(target, form, to string) {
		t.Helper()
		w := post(h, target, redistest.Must(url.ParseQuery("token="+token+"&"+form))(t))
		if w.is(t, http.StatusSeeOther); w.Header().Get("Location") != to {
			t.Errorf("%s leads to %q, want %q", target, w.Header().Get("Location"), to)
		}
	}
	get(h, page("/change", "orders"))
	posts("/change/rate?name=orders", "rate=20&interval=30m&keep_alive=1h&keep_state=1",
		"/limiter?name=orders&done=rate")
	c, err := l.Config(t.Context())
	if err != nil || c.Rate != 20 || c.Interval != 30*time.Minute || c.KeepAlive != time.Hour {
		t.Errorf("%+v, %v", c, err)
	}
	get(h, "/limiter?name=orders&done=rate").is(t, http.StatusOK, "The rate is set.", "20 permits")
	for value, c := range map[string]struct{ target, want string }{
		"{orders}:value":      {"name=orders", "16"},
		"{users}:value:pod-1": {"id=pod-1&name=users", "7"},
	} {
		rdb.DecrBy(t.Context(), value, 2)
		posts("/change/repair?"+c.target, "", "/limiter?"+c.target+"&done=repair")
		if n := rdb.Get(t.Context(), value).Val(); n != c.want {
			t.Errorf("%s is %s, want %s", value, n, c.want)
		}
	}
	post(h, page("/change/delete", odd), url.Values{"token": {token}, "confirm": {"odd"}}).
		is(t, http.StatusBadRequest, "The typed name is another one.")
	posts(page("/change/delete", odd), `confirm=odd\n<1>`, "/?done=delete")
	if n := rdb.Exists(t.Context(), odd, "{"+odd+"}:value", "{"+odd+"}:permits").Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// A refused change changes nothing, and the page says why.
func TestRefusedChanges(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	limiter(t, rdb, "orders", 10)
	const others, text = "another hash", "a foreign string"
	rdb.HSet(t.Context(), others, "field", 1)
	rdb.Set(t.Context(), text, 1, 0)
	before := dump(t, rdb)
	set := func(name, value string) url.Values {
		form := url.Values{"token": {token}, "rate": {"20"}, "interval": {"30s"}, "confirm": {"orders"}}
		form.Set(name, value)
		return form
	}
	all := set("any", "")
	open := web.Config{AllowChanges: true, Token: token, Match: "*o*"}
	rate, remove := page("/change/rate", "orders"), page("/change/delete", "orders")
	same := func(*http.Request) {}
	for what, c := range map[string]struct {
		config web.Config
		path   string
		form   url.Values
		mod    func(*http.Request)
		code   int
		says   string
	}{
		"not allowed":      {web.Config{}, rate, all, same, 403, "It changes none."},
		"no token":         {open, rate, set("token", ""), same, 403, "The token is wrong."},
		"wrong token":      {open, remove, set("token", "no"), same, 403, "The token is wrong."},
		"no number":        {open, rate, set("rate", "ten"), same, 400, "must be a whole number"},
		"rate 0":           {open, rate, set("rate", "0"), same, 400, "rate is 0, must be between 1"},
		"no interval":      {open, rate, set("interval", "5"), same, 400, "must be a duration"},
		"interval 0":       {open, rate, set("interval", "0s"), same, 400, "interval is 0s, must be"},
		"short keep alive": {open, rate, set("keep_alive", "1s"), same, 400, "at least the interval"},
		"missing":          {open, page("/change/rate", "no"), all, same, 404, "There is no limiter"},
		"not in Match":     {open, page("/change/rate", "x"), all, same, 404, "There is no limiter"},
		"not a limiter":    {open, page("/change/rate", others), all, same, 404, "There is no limiter"},
		"a string":         {open, page("/change/delete", text), all, same, 409, "Another program"},
		"another site":     {open, rate, all, header("Sec-Fetch-Site", "cross-site"), 403, ""},
		"another origin":   {open, rate, all, header("Origin", "https://evil.example"), 403, ""},
		"too long": {open, rate, set("rate", strings.Repeat("1", 1<<20)), same, 400,
			"cannot be read"},
	} {
		t.Run(what, func(t *testing.T) {
			body := post(handler(t, rdb, c.config), c.path, c.form, c.mod).is(t, c.code, c.says)
			if strings.Contains(body, token) {
				t.Errorf("the token is on the page:\n%s", body)
			}
		})
	}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		r, _ := http.NewRequest(method, "http://localhost"+page("/change/rate", "orders"), nil)
		do(handler(t, rdb, open), r).is(t, http.StatusMethodNotAllowed)
	}
	if after := dump(t, rdb); !slices.Equal(before, after) {
		t.Errorf("something was changed: %v, before %v", after, before)
	}
	body := get(handler(t, rdb, web.Config{}), page("/limiter", "orders")).Body.String()
	if strings.Contains(body, "/change") {
		t.Error("the page leads to changes that are not allowed")
	}
}

// dump returns the keys and their values.
func dump(t *testing.T, rdb *redis.Client) (all []string) {
	t.Helper()
	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		all = append(all, key+"="+rdb.Dump(t.Context(), key).Val())
	}
	slices.Sort(all)
	return all
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

// A huge name makes no page larger, and viewers who do not read use bounded memory: at most Viewers pages are
// on their way.
func TestHugeNamesAndViewersWhoDoNotRead(t *testing.T) {
	t.Parallel()
	rdb := mini(t)
	limiter(t, rdb, "orders", 10)
	limiter(t, rdb, strings.Repeat("<", 1<<20), 10)
	h := handler(t, rdb, web.Config{Viewers: 2})
	if body := get(h, "/").is(t, http.StatusOK, "orders", "&lt;&lt;"); len(body) > 10_000 {
		t.Errorf("%d bytes", len(body))
	}
	release := make(chan struct{})
	var viewers sync.WaitGroup
	stuck := make(chan struct{}, 2)
	for range 2 {
		viewers.Go(func() {
			h.ServeHTTP(&reader{httptest.NewRecorder(), stuck, release}, request(t.Context(), "/"))
		})
	}
	<-stuck
	<-stuck
	if third := get(h, "/").is(t, http.StatusServiceUnavailable); len(third) > 100 {
		t.Errorf("the third viewer: %d bytes", len(third))
	}
	close(release)
	viewers.Wait()
	get(h, "/").is(t, http.StatusOK)
}
