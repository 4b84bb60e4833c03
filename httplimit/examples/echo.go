package examples

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/limit"
)

// Echo returns a server in which each user, known by an API key, has a limit for all routes.
// WrapMiddleware of echo takes a Middleware's Handler.
func Echo(limits limit.Ledger, handler echo.HandlerFunc) (http.Handler, error) {
	m, err := httplimit.New(limits, httplimit.ByHeader("X-Api-Key"))
	if err != nil {
		return nil, err
	}
	server := echo.New()
	server.Use(echo.WrapMiddleware(m.Handler))
	server.GET("/users/:id", handler)
	return server, nil
}
