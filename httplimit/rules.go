package httplimit

import (
	"context"
	"errors"
	"net/http"

	"github.com/redisson-go/rratelimiter/limit"
)

// Rules decide about requests: which limits a request falls under, whose these are, and
// whether they allow it. The Rules of package limit/rules are such.
type Rules interface {
	// AllowRequest takes n permits from all limits of a request, or from none. The rules of
	// limit.Limiter go for it. A request without limits is allowed, and there are no
	// numbers. user and address return who sends the request and from where, empty for
	// nobody; their errors are returned as they are. The time of ctx begins when it is first
	// asked for its Err, Done or Deadline, and anew when user or address has returned: find
	// the limits of the request before that, for a visitor who can make that slow must not
	// get a Fallback. done is not nil if the request holds permits as long as it runs; it
	// gives them back.
	AllowRequest(
		ctx context.Context, r *http.Request, user, address func(*http.Request) (string, error), n int64,
	) (result limit.Result, done func(context.Context) error, err error)
}

// NewRules returns a Middleware that asks rules about each request. Put it around the
// whole mux, or what checks who the user is: rules match routes by themselves.
//
// user returns the name of a user who was checked before, such as that of a session. An empty
// name or an ErrNoKey is nobody; nil is nobody ever. Its other errors are those of a KeyFunc:
// a Fallback is not for them, and WithTimeout does not bound it.
// Where rules go by address, it is that of ByAddress, unless WithAddress says otherwise.
//
// The fields and problem documents have the names of the limits in the rules. If rules or an
// option is nil, or an argument of an option is out of its bounds, the error is a
// limit.ErrInvalidArgument.
func NewRules(rules Rules, user KeyFunc, opts ...Option) (*Middleware, error) {
	if rules == nil {
		return nil, invalid("NewRules", "rules", nil, "not be nil")
	}
	m := &Middleware{rules: rules, address: marked(ByAddress())}
	if user != nil {
		m.user = marked(func(r *http.Request) (string, error) {
			name, err := user(r)
			if errors.Is(err, ErrNoKey) {
				return "", nil
			}
			return name, err
		})
	}
	return m.with("NewRules", opts)
}

// A keyError is one of the functions that say who sends a request, and from where.
type keyError struct{ error }

// Unwrap returns what the function returned.
func (e keyError) Unwrap() error { return e.error }

// marked returns a KeyFunc whose errors are told from those of a limiter.
func marked(key KeyFunc) KeyFunc {
	return func(r *http.Request) (string, error) {
		name, err := key(r)
		if err != nil {
			err = keyError{err}
		}
		return name, err
	}
}

// WithAddress sets what a request's address is for rules that go by it, such as that of
// ByAddressVia. It has no effect with New. The default is ByAddress.
func WithAddress(address KeyFunc) Option {
	return func(m *Middleware) error {
		if address == nil {
			return invalid("WithAddress", "address", nil, "not be nil")
		}
		m.address = marked(address)
		return nil
	}
}
