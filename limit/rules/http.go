package rules

import (
	"context"
	"net/http"
	"net/url"

	"github.com/redisson-go/rratelimiter/internal/admission"
	"github.com/redisson-go/rratelimiter/limit"
)

// AllowRequest is Allow for a request to a server; httplimit.NewRules uses it. user and address return the
// user and the address of the visitor; they may be nil, or return an empty text. The route of the request
// is its Pattern, if a mux has set it. begin is called when the rules of the request are found, and returns
// the context for the limits: the timeout of httplimit begins there. reservation is that of the Grant, which
// may be nil. done gives back the permits that the request holds while it runs; it is nil if there are none.
func (r *Rules) AllowRequest(
	begin func() context.Context, request *http.Request, user, address func(*http.Request) (string, error),
	n int64,
) (
	result limit.Result, reservation *limit.Reservation, done func(context.Context) error, err error,
) {
	of := func(f func(*http.Request) (string, error)) func() (string, error) {
		if f == nil {
			return nil
		}
		return func() (string, error) { return f(request) }
	}
	grant, err := r.allow(begin, Call{
		Method: request.Method, Path: sent(request.URL), Route: request.Pattern,
		Header: func(name string) []string { return admission.Header(request, name) },
		User:   of(user), Address: of(address),
	}, n)
	if err == nil && grant.Running() {
		done = grant.Done
	}
	return grant.Result, grant.Reservation(), done, err
}

// sent returns a path as it was sent. EscapedPath loses %2F if the path also has a byte that should have been
// escaped, and routers read RawPath. Where a middleware has changed only Path, RawPath is out of date.
func sent(u *url.URL) string {
	if plain, err := url.PathUnescape(u.RawPath); err == nil && plain == u.Path {
		return u.RawPath
	}
	return u.EscapedPath()
}
