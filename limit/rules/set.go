package rules

import (
	"crypto/sha256"
	"slices"
	"time"
)

// A Set is the rules of one file, checked. It does not change.
type Set struct {
	rules  []*rule
	routes *routes
	sum    [sha256.Size]byte // of the file
}

// A rule says which calls it is for, whose limits they use, and which.
type rule struct {
	line  int
	index int // in the file
	name  string

	route   string // a pattern of http.ServeMux
	at      int    // its line
	methods []string
	headers []condition
	user    presence

	by           []source
	cost         int64
	also, exempt bool
	limits       []definition

	vague bool // after a mistake it is not known which calls it is for
}

// String returns what mistakes call a rule.
func (r *rule) String() string {
	if r.name == "" {
		return "a rule"
	}
	return "rule " + r.name
}

// free reports whether a rule holds for each call of its route.
func (r *rule) free() bool {
	return len(r.methods) == 0 && len(r.headers) == 0 && r.user == whatever
}

// holdsFor reports whether a rule holds for each call of its route for which another holds.
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

// has reports whether a method is one of a rule.
func (r *rule) has(method string) bool {
	return len(r.methods) == 0 ||
		slices.ContainsFunc(r.methods, func(m string) bool { return answers(m, method) })
}

// A presence says whether something must be there.
type presence int

const (
	whatever presence = iota
	present
	absent
)

// fits reports whether something may be there, or not.
func (p presence) fits(there bool) bool { return p == whatever || there == (p == present) }

// A condition is what a header field must be.
type condition struct {
	name     string // canonical
	presence presence
	value    string // that it must have; not looked at unless presence is whatever
}

// A definition is all there is to say of one limit. Two limits are the same, and share
// their state, if they are equal.
type definition struct {
	policy    string // the name that visitors see
	key       string // the name in Redis, behind that of the store
	by        string
	algorithm string
	numbers
}

// numbers are those of an algorithm; which it has, algorithms says.
type numbers struct {
	rate, burst, most int64
	per, lease        time.Duration
	parts             int
}
