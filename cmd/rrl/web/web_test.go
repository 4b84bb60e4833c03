package web_test

import (
	"context"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/cmd/rrl/web"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/test/fixtures"
)

// A bad Config is refused with its field, its value and the bound, but without secrets.
func TestBadConfig(t *testing.T) {
	rdb := mini(t)
	for _, c := range []struct {
		want   string
		config web.Config
	}{
		{`Prefix is "limits", must be a path such as "/limits/"`, web.Config{Prefix: "limits"}},
		{`Prefix is "/limits", must`, web.Config{Prefix: "/limits"}},
		{`Prefix is "/{x}/", must`, web.Config{Prefix: "/{x}/"}},
		{`Prefix is "/../", must`, web.Config{Prefix: "/../"}},
		{`Prefix is "/a/./b/", must`, web.Config{Prefix: "/a/./b/"}},
		{`Token is of 6 bytes, must have at least 16`, web.Config{Token: "secret"}},
	} {
		_, err := web.New(rdb, c.config)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v, want %s", c.config, err, c.want)
		}
	}
	if _, err := web.New(nil, web.Config{}); err == nil || !strings.Contains(err.Error(), "rdb is nil") {
		t.Errorf("without a Redis: %v", err)
	}
}

// Every response forbids other scripts, caching and framing, and no other site may read it.
func TestHeaders(t *testing.T) {
	h, _ := orders(t, web.Config{})
	for _, target := range []string{
		"/", "/?match=*", page("/limiter", "orders"), "/static/page.css", "/static/page.js", "/static/none",
		"/none", "/healthz", page("/limiter", "none"), "/limiter",
	} {
		w := get(h, target, header("Origin", "https://other.example"))
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; " +
				"img-src 'self' data:; connect-src 'self'; form-action 'self'; " +
				"base-uri 'none'; frame-ancestors 'none'",
			"Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
			"Access-Control-Allow-Origin":  "",
			"Cross-Origin-Resource-Policy": "same-origin", "Set-Cookie": "",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", target, name, got, want)
			}
		}
		if kept := w.Header().Get("Cache-Control"); kept != "no-store" &&
			!strings.HasPrefix(target, "/static/") {
			t.Errorf("%s: Cache-Control is %q", target, kept)
		}
		body := w.Body.String()
		if strings.Contains(body, " style=") || strings.Contains(body, "<style") ||
			strings.Contains(body, "<script>") {
			t.Errorf("%s has a style or a script that the policy forbids:\n%s", target, body)
		}
	}
}

// A browser caches script and style, and asks whether they are current.
func TestStatic(t *testing.T) {
	h := handler(t, mini(t), web.Config{})
	w := get(h, "/static/page.js")
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/javascript") {
		t.Errorf("%d, %v", w.Code, w.Header())
	}
	get(h, "/static/page.js", header("If-None-Match", w.Header().Get("ETag"))).is(t, http.StatusNotModified)
	for _, target := range []string{"/static/", "/static/..%2fweb.go", "/static/../web.go",
		"/templates/list.html"} {
		if w := get(h, target); w.Code == http.StatusOK {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
}

// All links stay under the prefix, and other paths are not served.
func TestPrefix(t *testing.T) {
	h, _ := orders(t, web.Config{Prefix: "/ops/limits/"})
	mux := http.NewServeMux()
	mux.Handle("/ops/limits/", h)
	for _, target := range []string{"/ops/limits/", page("/ops/limits/limiter", "orders")} {
		body := get(mux, target).is(t, http.StatusOK)
		for _, attribute := range []string{`href="`, `src="`, `action="`, `data-live="`} {
			for part := range strings.SplitSeq(body, attribute) {
				if strings.HasPrefix(part, "/") && !strings.HasPrefix(part, "/ops/limits/") {
					t.Errorf("%s leads to %.40s", target, part)
				}
			}
		}
	}
	get(mux, "/").is(t, http.StatusNotFound)
}

// Pages of limiters in all states, and the list of them. A debt stands out, and is no fault; broken and
// saturated limiters stand out as well. A link chooses a client of a PER_CLIENT limiter.
func TestPages(t *testing.T) {
	t.Parallel()
	rdb, ctx := redistest.Start(t).Client(t), t.Context()
	take(t, limiter(t, rdb, "orders", 1000), 1)
	redistest.NoError(t, limiter(t, rdb, "fine1", 10).SetRate(ctx, rratelimiter.Overall, 10, time.Hour,
		rratelimiter.WithKeepAlive(24*time.Hour)))
	limiter(t, rdb, "fine2", 10)
	take(t, limiter(t, rdb, "used", 10), 10)
	take(t, limiter(t, rdb, "broken", 10), 5)
	rdb.Set(ctx, "{broken}:value", 100, 0)
	redistest.Must(limiter(t, rdb, "spent", 10).Charge(ctx, 1234))(t)
	perClient(t, rdb, "shared", "pod-1", 3)
	perClient(t, rdb, "shared", "pod-2", 4)
	c := rratelimiter.New(rdb, rratelimiter.WithID("pod-2"))
	t.Cleanup(func() { _ = c.Close() })
	redistest.Must(c.RateLimiter("shared").Charge(ctx, 7))(t)
	limiter(t, rdb, "many", 100_000)
	for i := range 1001 {
		record := redis.Z{Score: float64(time.Now().UnixMilli()), Member: redistest.JavaRecord(int64(i), 1)}
		rdb.ZAdd(ctx, "{many}:permits", record)
	}
	rdb.HSet(ctx, "another hash", "field", 1)
	const owner = "9c5f4a2e-1f5b-4e7c-8d3a-2b1c0d9e8f7a:17"
	rdb.HSet(ctx, "report", owner, 1)
	rdb.PExpire(ctx, "report", time.Minute)
	const alarm = `role="alert" data-text="alarm">Broken: `
	const saturated = `Saturated: all permits are taken.</p>`
	some, long := web.Config{Match: "fine?"}, strings.Repeat("a", 9000)
	for _, c := range []struct {
		config web.Config
		target string
		code   int
		parts  []string
	}{
		{web.Config{}, "/", 200, []string{
			"orders", ">OVERALL<", ">1,000<", ">1 h<", ">999<", "8 limiters", "!another hash",
			"!There are more", `width="100%"`, `<td class="n used">0<`,
			`<td class="n used"><b class="warn">−1,224</b>`,
			"<td>none</td>", `<td class="n">1,234</td>`, `<b class="warn">−1 to 7</b>`,
			">1 lock<", ">report<", owner,
		}},
		{web.Config{Mask: true}, "/", 200, []string{"!report", "!9c5f4a2e", "!orders"}},
		{some, "/?match=*", 200, []string{"2 limiters", "!orders"}},
		{some, "/limiter?name=fine1", 200, nil},
		{some, "/limiter?name=orders", 404, nil},
		{some, "/live?name=orders", 404, nil},
		{some, "/limiter", 400, nil},
		{some, "/limiter?name=fine9", 404, nil},
		{some, "/limiter?name=" + long, 400, nil},
		{some, "/?match=" + long[:201], 400, nil},
		{some, "/?match=*a*b*c*d*", 400, nil},
		{web.Config{}, "/limiter?name=fine1", 200,
			[]string{`class="go" width="100%"`, `"keep_alive">1 d<`, "!" + alarm, "!" + saturated}},
		{web.Config{}, "/limiter?name=used", 200,
			[]string{`id="meter" class="go" width="0%"`, "!" + alarm, saturated}},
		{web.Config{}, "/limiter?name=broken", 200, []string{alarm, "!" + saturated}},
		{web.Config{}, "/limiter?name=spent", 200, []string{`<div class="tile wide used" id="left">`,
			`<p class="warn" data-text="use">In debt by 1,224 permits, paid in `, "Nothing is wrong"}},
		{web.Config{}, "/limiter?name=many", 200, []string{"Only 1,000 of 1,001 records were read"}},
		{web.Config{}, "/limiter?name=shared", 303, nil}, // to the first client
		{web.Config{}, "/limiter?id=pod-1&name=shared", 200,
			[]string{`data-text="remaining">7<`, ">pod-2</a>"}},
		{web.Config{}, "/limiter?id=pod-2&name=shared", 200, []string{"In debt by 1 permit", ">pod-2</a>"}},
		{web.Config{}, "/limiter?id=pod-3&name=shared", 200, []string{`data-text="remaining">10<`}},
	} {
		w := get(handler(t, rdb, c.config), c.target)
		w.is(t, c.code, c.parts...)
		if to := w.Header().Get("Location"); c.code == 303 && to != "/limiter?id=pod-1&name=shared" {
			t.Errorf("it leads to %q", to)
		}
	}
}

// hostile are names of attackers.
func hostile() []string {
	return []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, "a b", "a/../../b", "..", "?x=1#y",
		"a&b=c", "%2e%2e", "+",
		"\x00\x01\n\r\t", "\xff\xfe", "\u202eevil", `{{.}}`, `javascript:alert(1)`, "'", `\`, "日本語",
		"{user}:1", strings.Repeat("long", 500),
	}
}

// Any name is reached by its link in the list, and its page shows it as text.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	names := hostile()
	for i, name := range names {
		limiter(t, rdb, name, int64(7000+i))
	}
	h := handler(t, rdb, web.Config{})
	list := get(h, "/").Body.String()
	if harms(list) {
		t.Errorf("a name is in the list as it is:\n%s", list)
	}
	reached := map[string]bool{}
	for _, link := range regexp.MustCompile(`href="(/limiter\?[^"]+)"`).FindAllStringSubmatch(list, -1) {
		target := redistest.Must(url.Parse(html.UnescapeString(link[1])))(t)
		name := target.Query().Get("name")
		if body := get(h, target.String()).is(t, http.StatusOK, ">7,0"); harms(body) {
			t.Errorf("%.40q is on its page as it is:\n%s", name, body)
		}
		reached[name] = true
	}
	for _, name := range names {
		if !reached[name] {
			t.Errorf("%.40q is not reached", name)
		}
	}
}

// harms reports whether a page contains a name as more than text.
func harms(page string) bool {
	return strings.Contains(page, "<script>") || strings.Contains(page, "<img") ||
		strings.Contains(page, "\xff") || strings.ContainsAny(page, "\x00\r\u202e")
}

// A silent Redis delays a probe by a second at most.
func TestHealthOfSilentRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := mini(t)
		rdb.AddHook(fixtures.Hook(func(ctx context.Context, _ redis.Cmder, _ redis.ProcessHook) error {
			<-ctx.Done()
			return ctx.Err()
		}))
		h := handler(t, rdb, web.Config{})
		start := time.Now()
		get(h, "/healthz").is(t, http.StatusServiceUnavailable, "unavailable\n")
		if took := time.Since(start); took != time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
