package httplimit

import (
	"context"
	"errors"
	"net/http"

	"github.com/redisson-go/rratelimiter/internal/admission"
	"github.com/redisson-go/rratelimiter/limit"
)

// Rules decide about requests: which limits a request falls under, under which keys, and whether
// they allow it. The Rules of package limit/rules implement it.
type Rules interface {
	// AllowRequest takes n permits from all limits of a request, or from none, by the rules of
	// limit.Limiter. A request without limits is allowed, and its Result has no numbers. user and
	// address return the user and the address of the sender, empty if unknown; AllowRequest returns
	// their errors unchanged. begin starts the timeout and returns the context for the limits. Call
	// it once, when the limits of the request are found: a visitor that can slow this down must not
	// get a Fallback.
	//
	// reservation is that of the limits that are settled once it is known what the request used, nil
	// if there are none. A Settle with one amount settles all of them. done is not nil if the request
	// holds permits while it runs; it gives them back.
	AllowRequest(
		begin func() context.Context, r *http.Request, user, address func(*http.Request) (string, error),
		n int64,
	) (
		result limit.Result, reservation *limit.Reservation, done func(context.Context) error, err error,
	)
}

// NewRules returns a Middleware that asks rules about each request. Put it around the
// whole mux, or around the handler that authenticates users: rules match routes themselves.
//
// user returns the name of an authenticated user, such as that of a session. An empty name, an
// ErrNoKey or a nil function means no user. Other errors are treated like those of a KeyFunc: a
// Fallback does not apply to them, and WithTimeout does not bound it. Rules by address use
// ByAddress, unless WithAddress says otherwise.
//
// The fields and problem documents contain the names of the limits in the rules. With WithSettle or
// WithActual the limits that the rules mark are settled, all by one Settle; after a panic their
// estimates count, whatever WithActual says.
//
// If rules or an option is nil, or an argument of an option is out of its bounds, the error is a
// limit.ErrInvalidArgument.
func NewRules(rules Rules, user KeyFunc, opts ...Option) (*Middleware, error) {
	if rules == nil {
		return nil, nilArgument("NewRules", "rules")
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

// marked returns a KeyFunc whose errors differ from those of a limiter.
func marked(key KeyFunc) KeyFunc {
	return func(r *http.Request) (string, error) {
		name, err := key(r)
		if err != nil {
			err = admission.KeyError{Err: err}
		}
		return name, err
	}
}

// WithAddress sets the address of a request for rules by address, for example ByAddressVia. It has no
// effect with New. The default is ByAddress.
func WithAddress(address KeyFunc) Option {
	return option(address != nil, nilArgument("WithAddress", "address"),
		func(m *Middleware) { m.address = marked(address) })
}
