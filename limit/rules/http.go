package rules

import (
	"context"
	"net/http"

	"github.com/redisson-go/rratelimiter/limit"
)

// AllowRequest is Allow for a request to a server: it is what httplimit.NewRules asks. user
// and address say who sends it, and from where; nil or an empty text is nobody. The route of
// the request is its Pattern, if a mux has set that. done is nil unless the request holds
// permits as long as it runs, and gives them back. AllowRequest looks at ctx when it has found
// the rules of the request, for the timeout of httplimit begins with that.
func (r *Rules) AllowRequest(
	ctx context.Context, request *http.Request, user, address func(*http.Request) (string, error), n int64,
) (result limit.Result, done func(context.Context) error, err error) {
	of := func(f func(*http.Request) (string, error)) func() (string, error) {
		if f == nil {
			return nil
		}
		return func() (string, error) { return f(request) }
	}
	grant, err := r.allow(ctx, Call{
		Method: request.Method, Path: request.URL.EscapedPath(), Route: request.Pattern,
		Header: func(name string) []string {
			if name == "Host" { // net/http keeps it apart
				return []string{request.Host}
			}
			return request.Header[name]
		},
		User: of(user), Address: of(address),
	}, n)
	if err == nil && grant.Running() {
		done = grant.Done
	}
	return grant.Result, done, err
}
