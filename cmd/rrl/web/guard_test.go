package web_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
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
		"localhost": 200, "localhost:8380": 200, "LOCALHOST:80": 200, "127.0.0.1:8380": 200, "[::1]:8380": 200, "[::1]": 200,
		"evil.example": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example:8380": 421, "": 421, "0.0.0.0": 421,
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
	for _, target := range []string{"/", page("/limiter", "orders"), page("/live", "orders"), "/static/page.js"} {
		w := get(h, target)
		if w.Code != http.StatusUnauthorized || !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Basic ") ||
			strings.Contains(w.Body.String(), "orders") {
			t.Errorf("%s without a token: %d, %v\n%s", target, w.Code, w.Header(), w.Body)
		}
	}
	if w := get(h, "/", basic("a wrong token, and long")); w.Code != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", w.Code)
	}
	if w := get(h, "/", basic(token)); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "orders") {
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

// A rate is set, a limiter repaired and deleted with the token, and with nothing less.
func TestChanges(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	l := limiter(t, rdb, "orders", 10)
	take(t, l, 4)
	h := handler(t, rdb, web.Config{AllowChanges: true, Token: token})
	rate := url.Values{"token": {token}, "rate": {"20"}, "interval": {"30s"}, "keep_alive": {"1h"}, "keep_state": {"1"}}
	w := post(h, page("/change/rate", "orders"), rate)
	if to := w.Header().Get("Location"); w.Code != http.StatusSeeOther || to != "/limiter?name=orders&done=rate" {
		t.Fatalf("%d, %q\n%s", w.Code, to, w.Body)
	}
	c, err := l.Config(t.Context())
	if err != nil || c.Rate != 20 || c.Interval != 30*time.Second || c.KeepAlive != time.Hour {
		t.Errorf("%+v, %v", c, err)
	}
	if n, err := l.AvailablePermits(t.Context()); n != 16 || err != nil {
		t.Errorf("%d permits are left, %v; want 16", n, err)
	}
	if body := get(h, page("/limiter", "orders")+"&done=rate").Body.String(); !strings.Contains(body, "The rate is set.") ||
		!strings.Contains(body, "20 permits") {
		t.Errorf("the page after it:\n%s", body)
	}
	value := wire.KeysOf("orders", "").Pairs[0].Value
	rdb.DecrBy(t.Context(), value, 7)
	if w := post(h, page("/change/repair", "orders"), url.Values{"token": {token}}); w.Code != http.StatusSeeOther {
		t.Errorf("repair: %d\n%s", w.Code, w.Body)
	}
	if n, _ := rdb.Get(t.Context(), value).Int(); n != 16 {
		t.Errorf("the value is %d, want 16", n)
	}
	if w := post(h, page("/change/delete", "orders"), url.Values{"token": {token}, "confirm": {"order"}}); w.Code != 400 ||
		!strings.Contains(w.Body.String(), "The name that was typed is another one.") {
		t.Errorf("delete by another name: %d\n%s", w.Code, w.Body)
	}
	w = post(h, page("/change/delete", "orders"), url.Values{"token": {token}, "confirm": {"orders"}})
	if to := w.Header().Get("Location"); w.Code != http.StatusSeeOther || to != "/?done=delete" {
		t.Errorf("delete: %d, %q", w.Code, to)
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
	if w := post(h, page("/change/repair", "orders")+"&id=pod-1", url.Values{"token": {token}}); w.Code != http.StatusSeeOther {
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
	rdb.HSet(t.Context(), "a hash of others", "field", 1)
	rdb.Set(t.Context(), "a string of others", 1, 0)
	before := dump(t, rdb)
	with := func(change func(url.Values)) url.Values {
		form := url.Values{"token": {token}, "rate": {"20"}, "interval": {"30s"}, "confirm": {"orders"}}
		change(form)
		return form
	}
	set := func(name, value string) url.Values { return with(func(f url.Values) { f.Set(name, value) }) }
	all := set("any", "")
	open := web.Config{AllowChanges: true, Token: token, Match: "*o*"}
	foreign := []func(*http.Request){header("Sec-Fetch-Site", "cross-site"), header("Origin", "https://evil.example")}
	for what, c := range map[string]struct {
		config web.Config
		path   string
		form   url.Values
		mod    func(*http.Request)
		code   int
		says   string
	}{
		"not allowed":      {web.Config{}, page("/change/rate", "orders"), all, nil, 403, "It changes none."},
		"no token":         {open, page("/change/rate", "orders"), set("token", ""), nil, 403, "The token is wrong."},
		"wrong token":      {open, page("/change/delete", "orders"), set("token", "no"), nil, 403, "The token is wrong."},
		"no number":        {open, page("/change/rate", "orders"), set("rate", "ten"), nil, 400, "must be a whole number"},
		"rate 0":           {open, page("/change/rate", "orders"), set("rate", "0"), nil, 400, "rate is 0, must be between 1"},
		"no interval":      {open, page("/change/rate", "orders"), set("interval", "5"), nil, 400, "must be a duration"},
		"interval 0":       {open, page("/change/rate", "orders"), set("interval", "0s"), nil, 400, "interval is 0s, must be"},
		"short keep alive": {open, page("/change/rate", "orders"), set("keep_alive", "1s"), nil, 400, "at least the interval"},
		"not there":        {open, page("/change/rate", "no"), all, nil, 404, "There is no limiter"},
		"not to be seen":   {open, page("/change/rate", "x"), all, nil, 404, "There is no limiter"},
		"not a limiter":    {open, page("/change/rate", "a hash of others"), all, nil, 404, "There is no limiter"},
		"a string":         {open, page("/change/delete", "a string of others"), all, nil, 409, "Another program"},
		"another site":     {open, page("/change/rate", "orders"), all, foreign[0], 403, ""},
		"another origin":   {open, page("/change/rate", "orders"), all, foreign[1], 403, ""},
		"too long":         {open, page("/change/rate", "orders"), set("rate", strings.Repeat("1", 1<<20)), nil, 400, "cannot be read"},
	} {
		var mods []func(*http.Request)
		if c.mod != nil {
			mods = append(mods, c.mod)
		}
		w := post(handler(t, rdb, c.config), c.path, c.form, mods...)
		if body := w.Body.String(); w.Code != c.code || !strings.Contains(body, c.says) || strings.Contains(body, token) {
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
	if body := get(handler(t, rdb, web.Config{}), page("/limiter", "orders")).Body.String(); strings.Contains(body, "/change") {
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

// With masks no name and no id leaves the server, in no response.
func TestMask(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t, func(o *redis.Options) { o.MaxRetries = -1; o.DialerRetries = 1 })
	secrets := []string{"customer", "johnsmith", "reports", "worker"}
	l := limiter(t, rdb, "customer:{johnsmith}", 10)
	take(t, l, 1)
	perClient(t, rdb, "reports", "worker-7", 3)
	keys := wire.KeysOf("customer:{johnsmith}", "").Pairs[0]
	rdb.Set(t.Context(), keys.Value, "none", 0)
	rdb.Expire(t.Context(), keys.Permits, time.Hour) // findings that name keys
	rdb.Set(t.Context(), wire.KeysOf("reports", "").Pairs[0].Value, 1, 0)
	h := site(t, rdb, web.Config{Mask: true})
	var all strings.Builder
	ask := func(target string) (code int, body string) {
		w := get(h.Config.Handler, target)
		_ = w.Result().Header.Write(&all)
		all.WriteString(w.Body.String())
		return w.Code, w.Body.String()
	}
	_, list := ask("/")
	links, one := 0, ""
	for part := range strings.SplitSeq(list, `<a href="/limiter?name=`) {
		if mask, _, ok := strings.Cut(part, `"`); ok && len(mask) == 16 {
			links, one = links+1, mask
			code, body := ask(page("/limiter", mask))
			if code == http.StatusSeeOther {
				id := strings.TrimPrefix(all.String()[strings.LastIndex(all.String(), "?id="):], "?id=")
				code, body = ask(page("/limiter", mask) + "&id=" + id[:16])
			}
			if code != http.StatusOK || !strings.Contains(body, mask) {
				t.Errorf("%s: %d\n%s", mask, code, body)
			}
			_, line := follow(t, h.URL+page("/live", mask)).next()
			all.WriteString(line)
		}
	}
	if links != 2 {
		t.Errorf("%d links:\n%s", links, list)
	}
	// Nor can one ask whether a guess is right.
	for _, target := range []string{"/?match=cust*", page("/limiter", "reports"), page("/limiter", "customer:{johnsmith}")} {
		if code, _ := ask(target); code != http.StatusForbidden && code != http.StatusNotFound {
			t.Errorf("%s: %d", target, code)
		}
	}
	if !strings.Contains(all.String(), "must be") && !strings.Contains(all.String(), "no integer") {
		t.Errorf("there are no findings:\n%s", all.String())
	}
	s.Stop()
	until(t, "Redis is away", func() bool { code, _ := ask(page("/limiter", one)); return code == http.StatusServiceUnavailable })
	for _, secret := range append(secrets, s.Addr) {
		if strings.Contains(all.String(), secret) {
			t.Errorf("%q has left the server:\n%s", secret, all.String())
		}
	}
	// Another process has other masks.
	if body := get(handler(t, redistest.Start(t).Client(t), web.Config{Mask: true}), "/").Body.String(); body == list {
		t.Error("the masks are the same")
	}
}
