package examples

import (
	"bufio"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	chimiddleware "github.com/go-chi/chi/v5/middleware"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit/rules"
)

const loginRules = `
rules:
  - {name: login, match: {route: POST /api/login}, limits: [{rate: 999999/1h}]}
  - {name: login-part, match: {route: POST /api/login/}, limits: [{rate: 999999/1h}]}
  - {name: tenant, match: {route: 'POST /tenants/{tenant}'}, limits: [{rate: 999999/1h}]}
  - {name: health, match: {route: /health}, exempt: true}
  - {name: rest, limits: [{rate: 999999/1h}]}
`

// However a path is written, a request that a router serves as /api/login or as a tenant is counted by the
// rule of that route, and a request that it does not serve as /health is counted by some rule: for paths
// that look like these, and for random ones, also with bytes that should have been escaped. Only the last
// :param of a route of echo matches the rest of a path, which docs/rules.md does not cover; a rule
// for any number of segments counts all of it.
func TestNoPathBypassesARule(t *testing.T) {
	anyNumber := strings.Replace(loginRules, "{tenant}", "{tenant...}", 1)
	all := append(paths(), randomPaths()...)
	for name, router := range routers(t) {
		switch {
		case strings.HasPrefix(name, "echo"):
			bypass(t, name, limitedBy(t, loginRules, router), paths(), bypassOnEcho)
			bypass(t, name, limitedBy(t, anyNumber, router), all, nil)
		case name == "httputil.ReverseProxy": // over the network
			bypass(t, name, limitedBy(t, loginRules, router), paths(), nil)
		default:
			bypass(t, name, limitedBy(t, loginRules, router), all, nil)
		}
	}
}

// bypass expects some paths and no others to bypass a rule.
func bypass(t *testing.T, name string, limited http.Handler, all, some []string) {
	t.Helper()
	served := map[string]int{}
	for _, p := range all {
		by, counted, ok := post(limited, p)
		if !ok {
			continue
		}
		served[by]++
		hasRule := by == "login" || by == "tenant"
		bypass := hasRule && !strings.Contains(counted, `"`+by) || by == "other" && counted == ""
		if want := slices.Contains(some, p); bypass != want {
			t.Errorf("%s: POST %s is served by %s, and counted by %q; want a bypass: %t",
				name, p, by, counted, want)
		}
	}
	if min(served["login"], served["tenant"]) < 2 || served["health"] == 0 {
		t.Errorf("%s has served %v; too little was tried", name, served)
	}
}

// bypassOnEcho are the paths that bypass a rule for one segment.
var bypassOnEcho = []string{"/tenants/acme/x", "/tenants/acme/x/y", "/tenants/acme/.."}

// randomPaths returns the same random paths each time.
func randomPaths() (all []string) {
	parts := []string{"/", "/", "/", "%2F", "%2f", ";", "|", "\xff", "\"", "..", ".", "%2e%2e", "%2E", "/../",
		".json", "/.x", "%", "%25", "x", "/api/login", "/tenants/", "acme", "/health", "%6Cogin", "api",
		"login"}
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	for range 6_000 {
		target := pick("/api/login", "/tenants/acme", "/health", "/x", "")
		for range 1 + random.IntN(3) {
			at := random.IntN(len(target) + 1)
			target = target[:at] + pick(parts...) + target[at:]
		}
		all = append(all, target)
	}
	return all
}

// limitedBy returns a router behind the rules of a file.
func limitedBy(t *testing.T, text string, router http.Handler) http.Handler {
	t.Helper()
	set := redistest.Must(rules.Parse([]byte(text)))(t)
	limits := redistest.Must(rules.New(rules.InMemory(), set))(t)
	return redistest.Must(httplimit.NewRules(limits, nil))(t).Handler(router)
}

// post sends a request as a server reads it. It returns the name of the handler that served it, or what else
// was written, and the policies that counted it. ok is false if a server does not read the request.
func post(limited http.Handler, target string) (by, policies string, ok bool) {
	text := "POST " + target + " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
	request, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
	if err != nil {
		return "", "", false
	}
	w := httptest.NewRecorder()
	limited.ServeHTTP(w, request)
	return w.Body.String(), w.Header().Get("RateLimit-Policy"), true
}

// paths returns many forms of /api/login, /health and the path of a tenant, and paths that look like them.
func paths() []string {
	all := []string{"/health", "http://x/api/login", "/api/login?a=/health", "/API/Login",
		"/api%252Flogin", "/api%5Clogin", "/api/login%20", "/api/login%00", "/api/login%3Fa",
		"/files/a%2Fb", "/api/login%3B", "/tenants/acme", "/tenants/acme;a=b", "/tenants/.."}
	for _, between := range []string{"/", "//", "/./", "/x/../", "/x//../../", "%2F"} {
		all = append(all, "/tenants"+between+"acme", "/tenants"+between+"%2F", "/tenants"+between+"acme%2F",
			"/tenants"+between+"%2Facme")
	}
	all = append(append(all, "/tenants/acme%2Fx"), bypassOnEcho...)
	befores := []string{"", "/", "/.", "/x/..", "/x/%2e%2e", "/x%2F..", "/health/..", "/health%2F..", "/;a=b"}
	betweens := []string{
		"/", "//", "/./", "%2F", "%2f", "/x/../", ";a/", "/%2e/", "%2F%2F", "/;/", "/x//../../",
	}
	afters := []string{"", "/", "//", "/.", "%2F", ";a=b", "%3Ba", "/../login", "/%2e%2e/login",
		"/../../health", "/..%2F..%2Fhealth", "/x/..", "/x"}
	for _, login := range []string{"login", "%6Cogin"} {
		for i, before := range befores {
			for j, between := range betweens {
				for k, after := range afters {
					if min(i, j, k) == 0 { // two variations at once are enough
						all = append(all, before+"/api"+between+login+after)
					}
				}
			}
		}
	}
	for _, before := range befores {
		all = append(all, before+"/health", before+"/health/", before+"/health%2F", before+"/health;a")
	}
	return all
}

// routers returns the routers behind the rules. Each serves /api/login, tenants, /health and other paths.
func routers(t *testing.T) map[string]http.Handler {
	serve := func(by string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, by) }
	}
	plain := func(read func(p string) string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch p := read(r.URL.Path); {
			case p == "/api/login" || strings.HasPrefix(p, "/api/login/"):
				serve("login")(w, r)
			case isTenant(p):
				serve("tenant")(w, r)
			case p == "/health":
				serve("health")(w, r)
			default:
				serve("other")(w, r)
			}
		})
	}
	asItIs := plain(func(p string) string { return p })
	mux := http.NewServeMux()
	mux.Handle("POST /api/login", serve("login"))
	mux.Handle("POST /tenants/{tenant}", serve("tenant"))
	mux.Handle("/health", serve("health"))
	mux.Handle("/", serve("other"))
	onChi := func(middlewares ...func(http.Handler) http.Handler) http.Handler {
		r := chi.NewRouter()
		r.Use(middlewares...)
		r.Post("/api/login", serve("login"))
		r.Post("/tenants/{tenant}", serve("tenant"))
		r.Handle("/health", serve("health"))
		r.NotFound(serve("other"))
		return r
	}
	gin.SetMode(gin.TestMode)
	onGin := func(set func(e *gin.Engine)) http.Handler {
		e := gin.New()
		set(e)
		e.POST("/api/login", gin.WrapF(serve("login")))
		e.POST("/tenants/:tenant", gin.WrapF(serve("tenant")))
		e.Any("/health", gin.WrapF(serve("health")))
		e.NoRoute(func(c *gin.Context) { c.Status(http.StatusOK); serve("other")(c.Writer, c.Request) })
		return e
	}
	onEcho := func(before ...echo.MiddlewareFunc) http.Handler {
		e := echo.New()
		e.Pre(before...)
		e.POST("/api/login", echo.WrapHandler(serve("login")))
		e.POST("/tenants/:tenant", echo.WrapHandler(serve("tenant")))
		e.Any("/health", echo.WrapHandler(serve("health")))
		e.RouteNotFound("/*", echo.WrapHandler(serve("other")))
		return e
	}
	to := redistest.Must(url.Parse(start(t, asItIs)))(t)
	return map[string]http.Handler{
		"http.ServeMux":              mux,
		"a handler of URL.Path":      asItIs,
		"one of the cleaned path":    plain(path.Clean),
		"one of the resolved path":   plain(resolved),
		"one that reads as servlets": plain(servlet),
		"httputil.ReverseProxy":      httputil.NewSingleHostReverseProxy(to),
		"chi":                        onChi(),
		"chi, CleanPath":             onChi(chimiddleware.CleanPath),
		"chi, StripSlashes":          onChi(chimiddleware.StripSlashes),
		"chi, URLFormat":             onChi(chimiddleware.URLFormat),
		"chi, all of them": onChi(chimiddleware.CleanPath, chimiddleware.StripSlashes,
			chimiddleware.URLFormat),
		"chi, the other way round": onChi(chimiddleware.URLFormat, chimiddleware.CleanPath,
			chimiddleware.StripSlashes),
		"gin":                 onGin(func(*gin.Engine) {}),
		"gin, UseRawPath":     onGin(func(e *gin.Engine) { e.UseRawPath = true }),
		"gin, UseEscapedPath": onGin(func(e *gin.Engine) { e.UseEscapedPath = true }),
		"gin, both of them": onGin(func(e *gin.Engine) {
			e.UseRawPath, e.RemoveExtraSlash = true, true
		}),
		"gin, RemoveExtraSlash":     onGin(func(e *gin.Engine) { e.RemoveExtraSlash = true }),
		"gin, RedirectFixedPath":    onGin(func(e *gin.Engine) { e.RedirectFixedPath = true }),
		"echo":                      onEcho(),
		"echo, RemoveTrailingSlash": onEcho(middleware.RemoveTrailingSlash()),
	}
}

// isTenant reports whether a path has one segment after /tenants/.
func isTenant(p string) bool {
	name, ok := strings.CutPrefix(p, "/tenants/")
	return ok && name != "" && !strings.Contains(name, "/")
}

// resolved resolves a path by RFC 3986, section 5.2.4: ".." removes the segment before it, even an empty one.
func resolved(p string) string { return (&url.URL{Path: "/"}).ResolveReference(&url.URL{Path: p}).Path }

// servlet reads a path by the Servlet specification, section 3.5.2: without the parameters of segments, and
// then without dot segments.
func servlet(p string) string {
	segments := strings.Split(p, "/")
	for i, s := range segments {
		segments[i], _, _ = strings.Cut(s, ";")
	}
	return path.Clean(strings.Join(segments, "/"))
}
