// Package examples shows httplimit in other frameworks: chi, gin and echo. Each of its
// functions is complete, and can be copied; limits may also be a
// *rratelimiter.Keyed. They are a module of their own, so that users of the
// library do not download the frameworks.
package examples

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/limit"
)

// Chi returns a router in which each user, known by an API key, has a limit for all routes.
// A Middleware's Handler has the form of chi's middleware.
func Chi(limits limit.Ledger, handler http.HandlerFunc) (http.Handler, error) {
	m, err := httplimit.New(limits, httplimit.ByHeader("X-Api-Key"))
	if err != nil {
		return nil, err
	}
	router := chi.NewRouter()
	router.Use(m.Handler)
	router.Get("/users/{id}", handler)
	return router, nil
}

// ChiByRoute returns a router in which each route has a limit. chi knows the route of a
// request when it has found its handler, so the middleware is that of the route: With, not
// Use. Its pattern has braces, which a limiter in Redis refuses as part of a key.
func ChiByRoute(limits limit.Ledger, handler http.HandlerFunc) (http.Handler, error) {
	router := chi.NewRouter()
	for _, route := range []struct{ name, pattern string }{{"user", "/users/{id}"}, {"users", "/users"}} {
		m, err := httplimit.New(limits, httplimit.Constant(route.name))
		if err != nil {
			return nil, err
		}
		router.With(m.Handler).Get(route.pattern, handler)
	}
	return router, nil
}
