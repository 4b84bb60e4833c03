package rules

import (
	"slices"
	"time"

	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
)

// A Set is the checked rules of one file. It is immutable.
type Set struct {
	rules  []*rule
	routes *routes
	sum    string // of the file
}

// A rule says which calls it is for, what separates their limits, and which limits they have.
type rule struct {
	line  int
	index int // the position in the file
	name  string

	route   string // a pattern of http.ServeMux
	at      int    // its line
	methods []string
	headers []condition
	user    presence

	by           []source
	cost         int64
	settle       bool // the cost is an estimate
	also, exempt bool
	limits       []definition

	vague bool // after a mistake its calls are unknown
}

// String names the rule in mistakes.
func (r *rule) String() string {
	if r.name == "" {
		return "a rule"
	}
	return "rule " + r.name
}

// free reports whether the rule has no conditions but its route.
func (r *rule) free() bool {
	return len(r.methods) == 0 && len(r.headers) == 0 && r.user == whatever
}

// holdsFor reports whether the conditions of a rule hold whenever those of other do.
func (r *rule) holdsFor(other *rule) bool {
	if len(r.methods) > 0 && len(other.methods) == 0 || r.user != whatever && r.user != other.user {
		return false
	}
	for _, method := range other.methods {
		if !r.has(method) {
			return false
		}
	}
	for _, h := range r.headers {
		same := func(c condition) bool {
			return c == h || h.presence == present && c.name == h.name && c.presence == whatever
		}
		if !slices.ContainsFunc(other.headers, same) {
			return false
		}
	}
	return true
}

// has reports whether the rule is for a method.
func (r *rule) has(method string) bool {
	return len(r.methods) == 0 ||
		slices.ContainsFunc(r.methods, func(m string) bool { return answers(m, method) })
}

// A presence says whether a value must be there.
type presence int

const (
	whatever presence = iota
	present
	absent
)

// fits reports whether a value that is there, or not, fits.
func (p presence) fits(there bool) bool { return p == whatever || there == (p == present) }

// A condition is one of a header field.
type condition struct {
	name     string // canonical
	presence presence
	value    string // the value it must have if presence is whatever
}

// A definition defines a limit. Limits with equal definitions are the same, and share their state.
type definition struct {
	policy    string // the name for visitors
	key       string // the name in Redis, behind the name of the store
	by        string
	algorithm string
	numbers
}

// numbers are the numbers of any algorithm; algorithms says which it has.
type numbers struct {
	rate, burst, most int64
	per, lease        time.Duration
	parts             int

	unit       fixedwindow.Unit
	zone, from string // a time zone, and a time in it; empty for the default
}
