package examples

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
)

// limits returns two permits an hour for each key.
func limits(t *testing.T) limit.Ledger {
	t.Helper()
	return redistest.Must(slidingwindow.Log{Rate: 2, Interval: time.Hour}.InMemory())(t)
}

// visit sends a request to a server, and returns the status, the body and the field RateLimit.
func visit(t *testing.T, url, apiKey string) (status int, body, field string) {
	t.Helper()
	r := redistest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	r.Header.Set("X-Api-Key", apiKey)
	response := redistest.Must(http.DefaultClient.Do(r))(t)
	defer response.Body.Close()
	text := redistest.Must(io.ReadAll(response.Body))(t)
	return response.StatusCode, string(text), response.Header.Get("RateLimit")
}

// In each framework a user has one limit for all routes, and each user another. The fields are there,
// and the writer can flush.
func TestFrameworks(t *testing.T) {
	gin.SetMode(gin.TestMode)
	for name, build := range map[string]func(limit.Ledger) (http.Handler, error){
		"chi": func(limits limit.Ledger) (http.Handler, error) {
			return Chi(limits, func(w http.ResponseWriter, _ *http.Request) { welcome(t, w) })
		},
		"gin": func(limits limit.Ledger) (http.Handler, error) {
			return Gin(limits, func(c *gin.Context) { welcome(t, c.Writer) })
		},
		"echo": func(limits limit.Ledger) (http.Handler, error) {
			return Echo(limits, func(c echo.Context) error { welcome(t, c.Response()); return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := start(t, redistest.Must(build(limits(t)))(t))
			for _, step := range []struct {
				path, apiKey string
				status       int
				field        string // its beginning: the time depends on the machine
			}{
				{"/users/1", "alice", http.StatusOK, `"default";r=1;t=`},
				{"/users/2", "alice", http.StatusOK, `"default";r=0;t=`},
				{"/users/1", "alice", http.StatusTooManyRequests, `"default";r=0;t=`},
				{"/users/1", "bob", http.StatusOK, `"default";r=1;t=`},
				{"/users/1", "", http.StatusBadRequest, ""},
			} {
				status, body, field := visit(t, server+step.path, step.apiKey)
				served := body == "welcome"
				hasField := strings.HasPrefix(field, step.field) && (field == "") == (step.field == "")
				if status != step.status || !hasField || served != (status == http.StatusOK) {
					t.Errorf("%s of %q: %d %q %q, want %d %q", step.path, step.apiKey, status, body, field,
						step.status, step.field)
				}
			}
		})
	}
}

func start(t *testing.T, handler http.Handler) (url string) {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func welcome(t *testing.T, w http.ResponseWriter) {
	_, err := io.WriteString(w, "welcome")
	if err := errors.Join(err, http.NewResponseController(w).Flush()); err != nil {
		t.Error(err)
	}
}

// Each route of chi has a limit.
func TestChiByRoute(t *testing.T) {
	server := start(t, redistest.Must(ChiByRoute(limits(t),
		func(w http.ResponseWriter, _ *http.Request) { welcome(t, w) }))(t))
	for _, step := range []struct {
		path   string
		status int
	}{
		{"/users/1", http.StatusOK}, {"/users/2", http.StatusOK}, {"/users/3", http.StatusTooManyRequests},
		{"/users", http.StatusOK}, {"/none", http.StatusNotFound},
	} {
		if status, body, _ := visit(t, server+step.path, "k"); status != step.status {
			t.Errorf("%s: %d %q, want %d", step.path, status, body, step.status)
		}
	}
}

// A handler of gin settles its request, and is not called after a refusal.
func TestGinSettles(t *testing.T) {
	gin.SetMode(gin.TestMode)
	cost := func(*http.Request) (int64, error) { return 2, nil }
	m := redistest.Must(httplimit.New(limits(t), httplimit.Constant("all"), httplimit.WithSettle(),
		httplimit.WithCost(cost)))(t)
	engine := gin.New()
	engine.Use(GinSettling(m))
	served := 0
	engine.GET("/", func(c *gin.Context) {
		served++
		redistest.NoError(t, httplimit.Settle(c.Request.Context(), 1))
	})
	server := start(t, engine)
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} { // 2 are reserved, 1 is left
		if status, body, _ := visit(t, server, ""); status != want {
			t.Errorf("%d %q, want %d", status, body, want)
		}
	}
	if served != 1 {
		t.Errorf("served %d requests", served)
	}
}
