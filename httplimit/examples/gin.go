package examples

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/limit"
)

// Gin returns an engine in which each user, known by an API key, has a limit for all routes.
func Gin(limits limit.Ledger, handler gin.HandlerFunc) (http.Handler, error) {
	m, err := httplimit.New(limits, httplimit.ByHeader("X-Api-Key"))
	if err != nil {
		return nil, err
	}
	engine := gin.New()
	engine.Use(ginLimit(m))
	engine.GET("/users/:id", handler)
	return engine, nil
}

// ginLimit converts a Middleware to gin. After a refusal has been written, no other handler may run.
func ginLimit(m *httplimit.Middleware) gin.HandlerFunc {
	return func(c *gin.Context) {
		if !m.Admit(c.Writer, c.Request) {
			c.Abort()
		}
	}
}

// GinSettling converts a Middleware with WithSettle to gin: handlers call httplimit.Settle with the context
// of c.Request. WithActual would not see what gin writes.
func GinSettling(m *httplimit.Middleware) gin.HandlerFunc {
	return func(c *gin.Context) {
		m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			c.Request = r
			c.Next()
		})).ServeHTTP(c.Writer, c.Request)
		c.Abort() // without it gin would call the next handler after a refusal
	}
}
