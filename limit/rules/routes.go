package rules

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// routes find the rules of a path. http.ServeMux matches them by its precedence: of two routes that
// match the same request one is more specific, or Parse has rejected them. So the routes that match a
// request form a chain, which depends only on the most specific route, and is computed once.
type routes struct {
	mux     *http.ServeMux
	parts   int // the most segments of a route
	longest int // the most bytes in a segment of a route, and more than those of a dot segment
}

func newRoutes() *routes { return &routes{mux: http.NewServeMux(), longest: len("...")} }

// A route is one pattern and the rules that have it.
type route struct {
	pattern string
	rules   []*rule
	chain   []*route // the route and all more general ones, the most specific first

	method   string   // empty for all methods
	segments []string // anySegment, "=" and a text, or empty for a slash at the end
	open     bool     // the last segment matches any number of segments
}

// ServeHTTP makes a route an http.Handler, so that a mux can find it. It is never called.
func (*route) ServeHTTP(http.ResponseWriter, *http.Request) {}

// add adds a rule. The error says why its route is unusable.
func (t *routes) add(r *rule, byPattern map[string]*route) error {
	if byPattern[r.route] == nil {
		added := newRoute(r.route)
		if err := handle(t.mux, added); err != nil {
			return err
		}
		byPattern[r.route] = added
		t.parts = max(t.parts, len(added.segments))
		for _, s := range added.segments {
			t.longest = max(t.longest, len(s))
		}
	}
	same := byPattern[r.route]
	for _, before := range same.rules {
		if !before.also && !r.also && before.holdsFor(r) {
			return fmt.Errorf("%s never applies: %s, line %d, "+
				"has the same route and no other conditions", r, before, before.line)
		}
	}
	same.rules = append(same.rules, r)
	return nil
}

// link sets the chains of all routes.
func (t *routes) link(all []*route) {
	for _, r := range all {
		for _, other := range all {
			if other.covers(r) {
				r.chain = append(r.chain, other)
			}
		}
		slices.SortFunc(r.chain, func(a, b *route) int {
			switch {
			case a == b:
				return 0
			case b.covers(a):
				return -1
			}
			return 1
		})
	}
}

// newRoute returns the route of a pattern.
func newRoute(pattern string) *route {
	r := &route{pattern: pattern}
	method, rest, ok := strings.Cut(pattern, " ")
	if !ok {
		method, rest = "", pattern
	}
	r.method, r.segments = method, strings.Split(rest[1:], "/")
	for i, s := range r.segments {
		last := i == len(r.segments)-1
		switch {
		case s == "{$}":
			r.segments[i] = "" // the path ends with a slash
		case last && (s == "" || strings.HasSuffix(s, "...}")):
			r.segments[i], r.open = anySegment, true
		case strings.HasPrefix(s, "{"):
			r.segments[i] = anySegment
		default:
			if plain, err := url.PathUnescape(s); err == nil {
				r.segments[i] = "=" + plain
			}
		}
	}
	return r
}

// anySegment stands for a wildcard in the segments of a route.
const anySegment = "*"

// covers reports whether a route matches all requests that other matches.
func (r *route) covers(other *route) bool {
	if r.method != "" && !answers(r.method, other.method) {
		return false
	}
	n := len(r.segments)
	if r.open {
		n-- // the end matches any rest, even an empty one
		if len(other.segments) <= n {
			return false
		}
	} else if other.open || len(other.segments) != n {
		return false
	}
	for i, s := range r.segments[:n] {
		same := s == other.segments[i]
		end := other.open && i == len(other.segments)-1
		if end || !same && (s != anySegment || other.segments[i] == "") {
			return false
		}
	}
	return true
}

// answers reports whether a route or a condition with a method is for requests with the method asked.
func answers(method, asked string) bool {
	return method == asked || method == http.MethodGet && asked == http.MethodHead
}

// muxOf returns a mux of routes that do not conflict.
func muxOf(all ...*route) *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range all {
		mux.Handle(r.pattern, r)
	}
	return mux
}

// handle adds a route to a mux, which panics if the route is unusable.
func handle(mux *http.ServeMux, r *route) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("route %q %s", r.pattern, reason(r.pattern, fmt.Sprint(p)))
		}
	}()
	mux.Handle(r.pattern, r)
	if found(muxOf(r), example(r.pattern)) != r {
		return fmt.Errorf("route %q cannot be used: its path is not clean, and would never match",
			r.pattern)
	}
	return nil
}

// reason returns the text of a mux about a pattern, without the places in source code of patterns that
// conflict.
func reason(pattern, text string) string {
	if _, why, ok := strings.Cut(text, "):\n"); ok {
		return "conflicts: " + strings.ReplaceAll(why, "\n", " ")
	}
	return "cannot be used: " + strings.TrimPrefix(text, fmt.Sprintf("parsing %q: ", pattern))
}

// example returns a request that matches a pattern.
func example(pattern string) *http.Request {
	method, rest, ok := strings.Cut(pattern, " ")
	if !ok {
		method, rest = http.MethodGet, pattern
	}
	segments := strings.Split(rest, "/")
	for i, s := range segments {
		switch {
		case s == "{$}":
			segments[i] = ""
		case strings.HasPrefix(s, "{"):
			segments[i] = "x"
		default:
			if plain, err := url.PathUnescape(s); err == nil {
				s = plain
			}
			segments[i] = url.PathEscape(s)
		}
	}
	return request(method, strings.Join(segments, "/"))
}

// find returns the most specific route of each reading of an escaped path. A reading without the extension of
// its last segment counts if it has a more specific route: /login.json may be a login, and /favicon.ico is no
// /favicon.
func (t *routes) find(method, escaped string) (all []*route) {
	paths := t.readings(escaped)
	for _, reading := range paths {
		if r := t.most(method, reading); r != nil && !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	for _, reading := range paths {
		dot := strings.LastIndexByte(reading, '.')
		if dot < strings.LastIndexByte(reading, '/') {
			continue
		}
		for _, p := range []string{reading[:dot], strings.TrimSuffix(reading[:dot], "/")} { // of /foo/.x
			r := t.most(method, p)
			if r != nil && !slices.ContainsFunc(all, r.covers) {
				all = append(all, r)
			}
		}
	}
	return all
}

// most returns the most specific route of a reading, or nil. /a counts as /a/ if only /a/ is a route, to
// which a mux would redirect it.
func (t *routes) most(method, reading string) *route {
	r := found(t.mux, request(method, reading))
	if r == nil && !strings.HasSuffix(reading, "/") {
		r = found(t.mux, request(method, reading+"/"))
	}
	return r
}

// found returns the route that a mux finds for a request, or nil.
func found(mux *http.ServeMux, r *http.Request) *route {
	h, _ := mux.Handler(r)
	if found, ok := h.(*route); ok {
		return found
	}
	return nil // a redirect or an error
}

// request returns a request to an escaped path, as far as a mux needs it.
func request(method, escaped string) *http.Request {
	u := url.URL{Path: escaped}
	if strings.Contains(escaped, "%") {
		if plain, err := url.PathUnescape(escaped); err == nil {
			u = url.URL{Path: plain, RawPath: escaped}
		}
	}
	return &http.Request{Method: method, URL: &u}
}
