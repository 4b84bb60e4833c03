package examples

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// limits returns two permits an hour for each key, in a Redis of the test's own.
func limits(t *testing.T) *rratelimiter.Keyed {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	client := rratelimiter.New(rdb)
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	})
	return client.Keyed("api", 2, time.Hour)
}

// visit sends a request to a server, and returns the status and the body.
func visit(t *testing.T, url, apiKey string) (status int, body, field string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", apiKey)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text), response.Header.Get("RateLimit")
}

// In each framework a user is served until the permits are used up, whatever route it is,
// and others are not in the way of it. The fields are there, and the writer can flush.
func TestFrameworks(t *testing.T) {
	gin.SetMode(gin.TestMode)
	for name, build := range map[string]func(*rratelimiter.Keyed) (http.Handler, error){
		"chi": func(limits *rratelimiter.Keyed) (http.Handler, error) {
			return Chi(limits, func(w http.ResponseWriter, _ *http.Request) { welcome(t, w) })
		},
		"gin": func(limits *rratelimiter.Keyed) (http.Handler, error) {
			return Gin(limits, func(c *gin.Context) { welcome(t, c.Writer) })
		},
		"echo": func(limits *rratelimiter.Keyed) (http.Handler, error) {
			return Echo(limits, func(c echo.Context) error { welcome(t, c.Response()); return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			handler, err := build(limits(t))
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(handler)
			defer server.Close()
			for _, step := range []struct {
				path, apiKey string
				status       int
				field        string
			}{
				{"/users/1", "alice", http.StatusOK, `"api";r=1;t=3600`},
				{"/users/2", "alice", http.StatusOK, `"api";r=0;t=3600`},
				{"/users/1", "alice", http.StatusTooManyRequests, `"api";r=0;t=3600`},
				{"/users/1", "bob", http.StatusOK, `"api";r=1;t=3600`},
				{"/users/1", "", http.StatusBadRequest, ""},
			} {
				status, body, field := visit(t, server.URL+step.path, step.apiKey)
				served := body == "welcome"
				if status != step.status || field != step.field || served != (status == http.StatusOK) {
					t.Errorf("%s of %q: %d %q %q, want %d %q", step.path, step.apiKey, status, body, field,
						step.status, step.field)
				}
			}
		})
	}
}

func welcome(t *testing.T, w http.ResponseWriter) {
	if _, err := io.WriteString(w, "welcome"); err != nil {
		t.Error(err)
	}
	if err := http.NewResponseController(w).Flush(); err != nil {
		t.Error(err)
	}
}

// Each route of chi has a limit.
func TestChiByRoute(t *testing.T) {
	handler, err := ChiByRoute(limits(t), func(w http.ResponseWriter, _ *http.Request) { welcome(t, w) })
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	for _, step := range []struct {
		path   string
		status int
	}{
		{"/users/1", http.StatusOK}, {"/users/2", http.StatusOK}, {"/users/3", http.StatusTooManyRequests},
		{"/users", http.StatusOK}, {"/none", http.StatusNotFound},
	} {
		if status, body, _ := visit(t, server.URL+step.path, "k"); status != step.status {
			t.Errorf("%s: %d %q, want %d", step.path, status, body, step.status)
		}
	}
}

// What is wrong is said when a router is built.
func TestWrongLimits(t *testing.T) {
	for name, err := range map[string]error{
		"chi": second(Chi(nil, nil)), "chi by route": second(ChiByRoute(nil, nil)),
		"gin": second(Gin(nil, nil)), "echo": second(Echo(nil, nil)),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func second(_ http.Handler, err error) error { return err }
