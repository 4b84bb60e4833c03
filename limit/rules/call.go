package rules

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// A Call is what rules decide about. Fields that no rule uses may be empty.
type Call struct {
	// Method is the HTTP method. A gRPC call is a POST.
	Method string

	// Path is the escaped path of a URL as it was sent, RawPath of url.URL or, if that is
	// empty, its EscapedPath; or the full method of a gRPC call, "/package.Service/Method".
	// If there are rules, a Path of more than 8 KiB or 100 slashes, %2F included, is a
	// limit.ErrInvalidArgument.
	Path string

	// Route is the value of a rule by route, such as the full method of gRPC. If it is empty,
	// the value is the most specific route of the file that matches.
	Route string

	// Header returns the values of a header field, whose name is canonical ("X-Api-Key").
	Header func(name string) []string

	// User and Address return the user and the address of the caller, or an empty text. They
	// are called only for rules that need them. Allow calls User at most once, and returns
	// their errors unchanged.
	User, Address func() (string, error)

	// Timeout bounds the time for the limits, not counting User and Address. If it is 0 or
	// less, only the context bounds it.
	Timeout time.Duration
}

// A source is the part of a call that a rule limits by: each value of it has its own limit.
type source struct {
	kind   string // user, address, route, header
	header string // the canonical name
}

func (s source) String() string { return strings.TrimSuffix(s.kind+" "+s.header, " ") }

// described returns a text that identifies sources.
func described(by []source) string { return fmt.Sprint(by) }

// A caller is a Call that looks up its user once.
type caller struct {
	*Call
	matched string // the most specific route of the file, as the path is read

	asked bool
	name  string
	err   error
}

func (c *caller) user() (string, error) {
	if !c.asked && c.User != nil {
		c.name, c.err = c.User()
	}
	c.asked = true
	return c.name, c.err
}

func (c *caller) header(name string) []string {
	if c.Header == nil {
		return nil
	}
	return c.Header(name)
}

// A use is a rule that applies to a call, and the key of the call.
type use struct {
	rule *rule
	key  string
}

// The bounds of the path of a call, in bytes and slashes. The readings of a longer path would cost the server
// more than the request costs the visitor.
const (
	mostPath    = 8 << 10
	mostSlashes = 100
)

// slashes returns the number of slashes in an escaped path once it is decoded.
func slashes(escaped string) int {
	return strings.Count(escaped, "/") + strings.Count(escaped, "%2F") + strings.Count(escaped, "%2f")
}

// uses returns the rules that apply to a call, in the order of the file. If its path has several readings,
// the rules of all readings apply, and the call is free only if no reading has any.
func (s *Set) uses(call *Call) (uses []use, err error) {
	if n := len(call.Path); n > mostPath && len(s.rules) > 0 {
		return nil, fmt.Errorf("%w: the path has %d bytes, must have at most %d", limit.ErrInvalidArgument,
			n, mostPath)
	}
	if n := slashes(call.Path); n > mostSlashes && len(s.rules) > 0 {
		return nil, fmt.Errorf("%w: the path has %d slashes, must have at most %d", limit.ErrInvalidArgument,
			n, mostSlashes)
	}
	c := caller{Call: call}
	for _, most := range s.routes.find(call.Method, call.Path) {
		c.matched = most.pattern
		of, err := c.uses(most)
		if err != nil {
			return nil, err
		}
		if uses == nil { // of most paths, which have one reading
			uses = of
			continue
		}
		for _, u := range of {
			if !slices.Contains(uses, u) {
				uses = append(uses, u)
			}
		}
	}
	slices.SortStableFunc(uses, func(a, b use) int { return cmp.Compare(a.rule.index, b.rule.index) })
	return uses, nil
}

// uses returns the rules that apply to a call whose most specific route is most.
func (c *caller) uses(most *route) (uses []use, err error) {
	won := false
	for _, route := range most.chain {
		for _, r := range route.rules {
			if won && !r.also {
				continue
			}
			switch holds, err := r.holds(c); {
			case err != nil:
				return nil, err
			case holds && r.exempt:
				return nil, nil
			case holds:
				won = won || !r.also
				uses = append(uses, use{rule: r})
			}
		}
	}
	for i := range uses {
		if uses[i].key, err = c.key(uses[i].rule); err != nil {
			return nil, err
		}
	}
	return uses, nil
}

// holds reports whether the conditions of a rule hold.
func (r *rule) holds(c *caller) (bool, error) {
	if !r.has(c.Method) {
		return false, nil
	}
	for _, h := range r.headers {
		values := c.header(h.name)
		if !h.presence.fits(len(values) > 0) ||
			h.presence == whatever && !slices.Equal(values, []string{h.value}) {
			return false, nil
		}
	}
	if r.user == whatever {
		return true, nil
	}
	user, err := c.user()
	return r.user.fits(user != ""), err
}

// shared is the key of a rule without by.
const shared = "all"

// mostKey is the length in bytes up to which a key is not hashed.
const mostKey = 200

// key returns the key of a call for a rule. Different values have different keys, because values are
// escaped.
func (c *caller) key(r *rule) (string, error) {
	if len(r.by) == 0 {
		return shared, nil
	}
	var key []byte
	for i, s := range r.by {
		value, err := c.value(s)
		if err != nil {
			return "", err
		}
		if value == "" {
			return "", fmt.Errorf("%w: rule %s is by %s, and the call has none", limit.ErrInvalidArgument,
				r.name, s)
		}
		if i > 0 {
			key = append(key, '|')
		}
		key = appendEscaped(key, value)
	}
	if len(key) > mostKey {
		sum := sha256.Sum256(key)
		return "#" + hex.EncodeToString(sum[:]), nil
	}
	return string(key), nil
}

// value returns the value that a call has for a source. It is empty if the call has none, or has several
// values of a header field, of which none is preferable.
func (c *caller) value(s source) (string, error) {
	switch s.kind {
	case "user":
		return c.user()
	case "route":
		return cmp.Or(c.Route, c.matched), nil
	case "address":
		if c.Address == nil {
			return "", nil
		}
		return c.Address()
	}
	values := c.header(s.header)
	if len(values) != 1 || values[0] == "" {
		return "", nil
	}
	// A secret must not get to Redis. A hash of 128 bits is long enough that no other value
	// with the same hash can be found.
	sum := sha256.Sum256([]byte(values[0]))
	return hex.EncodeToString(sum[:16]), nil
}

// appendEscaped appends a value. Braces would be a hash tag of Redis.
func appendEscaped(b []byte, value string) []byte {
	const digits = "0123456789ABCDEF"
	for _, c := range []byte(value) {
		if c <= ' ' || c > '~' || strings.IndexByte("%{}|#", c) >= 0 {
			b = append(b, '%', digits[c>>4], digits[c&15])
		} else {
			b = append(b, c)
		}
	}
	return b
}
