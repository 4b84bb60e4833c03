package rules_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/rules"
)

// manyRules has routes in no useful order.
const manyRules = `
rules:
  - {name: rest, limits: [{rate: 1000/1m}]}
  - {name: beside, also: true, limits: [{rate: 1000/1m}]}
  - {name: get-item, match: {route: 'GET /items/{id}'}, limits: [{rate: 1000/1m}]}
  - {name: item-x, match: {route: GET /items/x}, limits: [{rate: 1000/1m}]}
  - {name: items, match: {route: /items/}, limits: [{rate: 1000/1m}]}
  - {name: beside-items, also: true, match: {route: /items/}, limits: [{rate: 1000/1m}]}
  - {name: new-item, match: {route: GET /items/new}, limits: [{rate: 1000/1m}]}
  - {name: free, match: {route: /search, headers: {X-Plan: free}}, limits: [{rate: 1000/1m}]}
  - {name: keyed, match: {route: /search, headers: {X-Key: true}}, limits: [{rate: 1000/1m}]}
  - {name: known, match: {route: /search, user: true, methods: [GET, M-SEARCH]}, limits: [{rate: 1000/1m}]}
  - {name: lacking, match: {route: /search, user: false, headers: {X-Old: false}}, limits: [{rate: 1000/1m}]}
  - {name: health, match: {route: /health}, exempt: true}
  - {name: staff, match: {headers: {X-Staff: 'true'}}, exempt: true}
  - {name: owner, also: true, match: {headers: {X-Staff: owner}}, exempt: true}
  - {name: service, match: {route: /shop.v1.Cart/}, limits: [{rate: 1000/1m}]}
  - {name: method, match: {route: /shop.v1.Cart/Add}, limits: [{rate: 1000/1m}]}
`

func TestTheMostSpecificRuleWins(t *testing.T) {
	// Without a condition of rest, staff would never apply after it.
	text := strings.Replace(manyRules, "{name: rest,", "{name: rest, match: {headers: {X-Staff: false}},", 1)
	r := inMemory(t, text)
	user := known("alice")
	for _, test := range []struct {
		call rules.Call
		want string
	}{
		{get("/"), "rest beside"},
		{get("/else/where"), "rest beside"},
		{get("/items/3"), "beside get-item beside-items"},
		{rules.Call{Method: "HEAD", Path: "/items/3"}, "beside get-item beside-items"},
		{rules.Call{Method: "PUT", Path: "/items/3"}, "beside items beside-items"},
		{get("/items/new"), "beside beside-items new-item"},
		{get("/items/3/parts"), "beside items beside-items"},
		{get("/items/"), "beside items beside-items"},
		{get("/items"), "beside items beside-items"},
		{get("//items/./x/../new"), "rest beside beside-items new-item"},
		{get("/items/n%65w"), "beside beside-items new-item"},
		{get("/items/a%2Fb"), "beside get-item items beside-items"},
		{get("/items/new/"), "beside items beside-items new-item"},
		{get("/items/new;v=1"), "beside get-item beside-items new-item"},
		{get("/items%2F;%2Fnew"), "rest beside items beside-items new-item"},
		{get("/items/new.json"), "beside get-item beside-items new-item"},
		{get("/items/%2e%2e/../new"), "rest beside items beside-items new-item"},
		{get("/items/" + strings.Repeat("n", 99)), "beside get-item beside-items"},
		{get("/health.json"), "rest beside"},
		{get("/search/a%2Fb"), "rest beside"},
		{get("/items/%2F"), "beside get-item items beside-items"},
		{get("/items//%2F"), "beside get-item items beside-items"},
		{get("/items/a//../../new"), "rest beside items beside-items new-item"},
		{get("/items/a/..//"), "beside get-item items beside-items"},
		{get("//items/a///../../..//new"), "rest beside beside-items new-item"},
		{get("/health%2F"), "rest beside"},
		{get("/health/../items/new"), "rest beside beside-items new-item"},
		{get("/items/../health"), "beside items beside-items"},
		{get("//health//"), "rest beside"},
		{get("/%zz"), "rest beside"},
		{get(""), "rest beside"},
		{get("*"), "rest beside"},
		{rules.Call{}, "rest beside"},
		{with(get("/search"), "X-Plan", "free", "X-Key", "k"), "beside free"},
		{with(get("/search"), "X-Plan", "paid", "X-Key", "k"), "beside keyed"},
		{with(get("/search"), "X-Plan", "free", "X-Plan", "paid", "X-Old", ""), "rest beside"},
		{rules.Call{Method: "M-SEARCH", Path: "/search", User: user}, "beside known"},
		// A handler of GET also serves HEAD, so its limit is for both, as in a route.
		{rules.Call{Method: "HEAD", Path: "/search", User: user}, "beside known"},
		{rules.Call{Method: "PUT", Path: "/search", User: user}, "rest beside"},
		{get("/search"), "beside lacking"},
		{with(get("/search"), "X-Old", "1"), "rest beside"},
		{get("/health"), ""},
		{with(get("/"), "X-Staff", "true"), ""},
		{with(get("/items/3"), "X-Staff", "true"), "beside get-item beside-items"},
		{with(get("/items/3"), "X-Staff", "owner"), ""},
		{rules.Call{Method: "POST", Path: "/shop.v1.Cart/Add"}, "beside method"},
		{rules.Call{Method: "POST", Path: "/shop.v1.Cart/Drop"}, "beside service"},
	} {
		g := allow(t, r, test.call, 1)
		if got := policies(g); got != test.want || !g.Allowed {
			t.Errorf("%s %s: rules %q, want %q", test.call.Method, test.call.Path, got, test.want)
		}
	}
}

func TestRulesOfOneRouteMayDifferInConditions(t *testing.T) {
	for _, pair := range [][2]string{
		{"methods: [POST]", "methods: [GET, POST]"}, {"methods: [HEAD]", "methods: [GET]"},
		{"user: true", "user: false"}, {"user: true", "methods: [GET]"},
		{"headers: {X: a}", "headers: {X: true}"}, {"headers: {X: a}", "headers: {X: b}"},
		{"headers: {X: true}", "headers: {X: false}"}, {"headers: {X: true}", "headers: {Y: true}"},
	} {
		const format = "\n  - {name: b, match: {%s}, exempt: true}"
		inMemory(t, file("match: {"+pair[0]+"}", limits)+fmt.Sprintf(format, pair[1]))
	}
}

// A path may have 8 KiB. A longer one is refused by its length alone, before its readings and the user: 1
// MiB needs no more allocations than 8 KiB and a byte.
func TestALongPathIsRefusedByItsLength(t *testing.T) {
	const most = 8 << 10
	asked := 0
	r := inMemory(t, file("match: {user: true}", "limits: [{rate: 1000/1h}]"))
	to := func(bytes int) rules.Call {
		call := get("/" + strings.Repeat("a", bytes-1))
		call.User = func() (string, error) { asked++; return "alice", nil }
		return call
	}
	if g := allow(t, r, to(most), 1); g.Limit != 1000 || asked != 1 {
		t.Errorf("8 KiB: %+v, asked %d times; want a limit", g.Result, asked)
	}
	refusing := func(bytes int) float64 {
		call, least := to(bytes), math.Inf(1)
		for range 20 { // other goroutines allocate now and then
			least = min(least, testing.AllocsPerRun(1, func() {
				fails(t, limit.ErrInvalidArgument, r, call, 1)
			}))
		}
		return least
	}
	if less, more := refusing(most+1), refusing(1<<20); more > less || asked != 1 {
		t.Errorf("%v allocations for 8 KiB and a byte, %v for 1 MiB; asked %d times", less, more, asked)
	}
	if g := allow(t, inMemory(t, "rules: []"), to(most+1), 1); !g.Allowed {
		t.Error("a file without rules refuses")
	}
}

// A path may have 100 slashes, however they are sent. Its readings take little memory and so little time.
func TestTheReadingsOfAPathAreBounded(t *testing.T) {
	r := inMemory(t, file("match: {route: '/items/{id}/new'}", "limits: [{rate: 1000/1m}]"))
	random := rand.New(rand.NewPCG(1, 2))
	parts := []string{"/", "/;", "%2F", "%2e%2e/", "../", "./", ";a/", ".x", "a/b/..;/"}
	long := "/items"
	for strings.Count(long, "/")+strings.Count(long, "%2F") < 98 {
		long += parts[random.IntN(len(parts))] + strings.Repeat(";", random.IntN(120))
	}
	allow(t, r, get(long+"%2f/"), 1)
	fails(t, limit.ErrInvalidArgument, r, get(long+"%2f/%2f"), 1)
	memory := testing.Benchmark(func(b *testing.B) {
		for range b.N {
			allow(b, r, get(long), 1)
		}
	}).AllocedBytesPerOp()
	if memory > 300_000 {
		t.Errorf("%d bytes take %d bytes of memory", len(long), memory)
	}
}

// A call without rules has no limits, and no numbers.
func TestACallWithoutRulesIsAllowed(t *testing.T) {
	r := inMemory(t, file("match: {route: /a}", "limits: [{rate: 1/1s}]"))
	g := allow(t, r, get("/b"), 1<<40)
	if !g.Allowed || g.Limit != 0 || g.Each != nil || g.Policy != "" || g.Running() {
		t.Errorf("%+v, want it allowed without numbers", g)
	}
	fails(t, limit.ErrInvalidArgument, r, get("/b"), 0)
	if g := allow(t, inMemory(t, "rules: []"), get("/"), 1); !g.Allowed {
		t.Error("a file without rules refuses")
	}
}

// Different callers have their own limits, and no value of a caller is the key of another.
func TestEachValueHasItsOwnLimit(t *testing.T) {
	for by, calls := range map[string][]rules.Call{
		"user": {of("alice"), of("bob"), of("{bob}"), of("%7Bbob%7D"), of("bob|x"), of("all"),
			of(strings.Repeat("b", 999))},
		"header X-Key": {with(of("a"), "X-Key", "1"), with(of("a"), "X-Key", "2")},
		"address":      {{Address: known("192.0.2.1")}, {Address: known("192.0.2.2")}},
		"route":        {{Route: "/a"}, {Route: "/b"}, get("/c")},
		"[user, address]": {
			{User: known("a|b"), Address: known("c")}, {User: known("a"), Address: known("b|c")},
		},
		"[user, header X-Key]": {
			with(of("a|b"), "X-Key", "1"), with(of("a"), "X-Key", "b|1"), with(of("a"), "X-Key", "1"),
		},
	} {
		r := inMemory(t, file("by: "+by, "limits: [{rate: 2/1h}]"))
		for _, call := range calls {
			wantAllowed(t, r, call, 2)
		}
	}
	shared := inMemory(t, file("limits: [{rate: 2/1h}]"))
	allow(t, shared, of("alice"), 1)
	wantAllowed(t, shared, of("bob"), 1)
}

func TestACallWithoutTheValueOfARuleTakesNothing(t *testing.T) {
	const text = `
rules:
  - {name: beside, also: true, limits: [{rate: 2/1h}]}
  - {name: own, match: {route: /own}, by: [user, header X-Key, address], limits: [{rate: 2/1h}]}`
	r := inMemory(t, text)
	whole := with(rules.Call{Path: "/own", User: known("a"), Address: known("b")}, "X-Key", "c")
	none := whole
	none.User = nil
	nobody := whole
	nobody.User = known("")
	nowhere := whole
	nowhere.Address = nil
	for what, call := range map[string]rules.Call{
		"user": none, "user ": nobody, "address": nowhere, "header X-Key": with(whole),
		"header X-Key ":  with(whole, "X-Key", "1", "X-Key", "2"),
		"header X-Key  ": with(whole, "X-Key", ""),
	} {
		_, err := r.Allow(t.Context(), call, 1)
		want := "rratelimiter: invalid argument: rule own is by " + strings.TrimSpace(what) +
			", and the call has none"
		if err == nil || err.Error() != want || !errors.Is(err, limit.ErrInvalidArgument) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	broken := errors.New("no session store")
	whole.User = func() (string, error) { return "", broken }
	fails(t, broken, r, whole, 1)
	wantAllowed(t, r, get("/"), 2)
}

// Users are looked up once, and only if a rule needs them.
func TestTheUserIsLookedUpOnce(t *testing.T) {
	r := inMemory(t, `
rules:
  - {name: a, match: {route: /a, user: true}, by: user, limits: [{rate: 9/1h}]}
  - {name: b, also: true, match: {route: /a, user: true}, by: user, limits: [{rate: 9/1h}]}
  - {name: rest, limits: [{rate: 9/1h}]}`)
	asked := 0
	call := rules.Call{Method: "GET", User: func() (string, error) { asked++; return "alice", nil }}
	for path, want := range map[string]int{"/a": 1, "/b": 0} {
		asked, call.Path = 0, path
		if allow(t, r, call, 1); asked != want {
			t.Errorf("%s: asked %d times, want %d", path, asked, want)
		}
	}
}

// Five hundred routes are made at once: a mux takes minutes to compare each two.
func TestManyRoutesAreMadeAtOnce(t *testing.T) {
	for shape, route := range map[string]func(i int) string{
		"beside": func(i int) string { return fmt.Sprintf("/a%d/{x}/", i) },
		"inside": func(i int) string { return fmt.Sprintf("M%c /%s", 'A'+i/31, deep(i%31)) },
	} {
		var text strings.Builder
		text.WriteString("rules:\n")
		for i := range 500 {
			fmt.Fprintf(&text, "  - {name: r%d, match: {route: '%s'}, limits: [{rate: 1/1s}]}\n", i, route(i))
		}
		began := time.Now()
		r := inMemory(t, text.String())
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: took %v", shape, took)
		}
		method, path, _ := strings.Cut(strings.Replace(" "+route(499), " M", "M", 1), " ")
		call := rules.Call{Method: method, Path: strings.ReplaceAll(path, "{x}", "b")}
		if got := policies(allow(t, r, call, 1)); got != "r499" {
			t.Errorf("%s: rules %q, want r499", shape, got)
		}
	}
}

// deep returns a path of n segments.
func deep(n int) string { return strings.Repeat("a/", n) }

// The route that a mux finds for a request is among its routes. If the path has one reading, it is the only
// one.
func TestRoutesAreThoseOfAMux(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(all ...string) string { return all[random.IntN(len(all))] }
	for range 300 {
		patterns := chosen(pick)
		var text strings.Builder
		text.WriteString("rules:\n")
		for name, pattern := range patterns {
			fmt.Fprintf(&text, "  - {name: %s, match: {route: '%s', headers: {No-%s: false}}, "+
				"limits: [{rate: 1000/1h}]}\n", name, pattern, name)
		}
		r := inMemory(t, text.String())
		for range 20 {
			call := rules.Call{Method: pick("GET", "HEAD", "POST", "CONNECT")}
			call.Path = "/" + pick("a", "b", "%61", "c/")
			call.Path += pick("", "/", "/a", "/b/", "/%2F", "/a/b", "/a/b/", "/{$}")
			call.Path = strings.ReplaceAll(call.Path, "//", "/")
			if call.Method == http.MethodConnect { // a mux does not clean its path
				call.Path += pick("", "", "/..", "/../..", "//", "/.")
			}
			without := map[string][]string{}
			call.Header = func(name string) []string { return without[name] }
			for range len(patterns) + 1 {
				want := byMux(patterns, without, call)
				if want == redirected {
					break
				}
				got := policies(allow(t, r, call, 1))
				plain := !strings.Contains(call.Path, "%") && !strings.HasSuffix(call.Path, "/") &&
					path.Clean(call.Path) == call.Path
				if plain && got != want || !slices.Contains(append(strings.Fields(got), ""), want) {
					t.Fatalf("%s %s without %v: rules %q, want %q:\n%s",
						call.Method, call.Path, without, got, want, &text)
				}
				without["No-"+want] = []string{""}
			}
		}
	}
}

// chosen returns patterns without conflicts, by names such as Xa.
func chosen(pick func(all ...string) string) map[string]string {
	patterns, mux := map[string]string{}, http.NewServeMux()
	for i := range 12 {
		pattern := pick("", "", "GET ", "HEAD ", "POST ") + "/" + pick("a", "b", "%61", "{x}")
		pattern += pick("", "/", "/{$}", "/a", "/a/", "/{y}", "/{y}/", "/{y...}", "/{y}/b", "/a/{z}",
			"/a/{$}")
		pattern = pick(pattern, pattern, pattern, "/", "/{$}", "GET /")
		func() {
			defer func() { _ = recover() }() // it conflicts
			mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {})
			patterns[fmt.Sprintf("X%c", 'a'+i)] = pattern
		}()
	}
	return patterns
}

// byMux returns the name of the pattern that a mux finds for a call, except those in without.
func byMux(patterns map[string]string, without map[string][]string, call rules.Call) string {
	mux := http.NewServeMux()
	for name, pattern := range patterns {
		if without["No-"+name] == nil {
			mux.Handle(pattern, named(name))
		}
	}
	request := httptest.NewRequestWithContext(context.Background(), call.Method, call.Path, nil)
	handler, pattern := mux.Handler(request)
	name, ok := handler.(named)
	if !ok && pattern != "" {
		return redirected
	}
	return string(name)
}

// redirected is the name for a redirect to a path with a slash at its end.
const redirected = "redirected"

// A named is a handler that is never called.
type named string

func (named) ServeHTTP(http.ResponseWriter, *http.Request) {}
