package httplimit_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/httplimit"
)

func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	// Each API key has 2 requests a minute, counted in Redis.
	perKey := client.Keyed("search", 2, time.Minute)
	m, err := httplimit.New(perKey, httplimit.ByHeader("X-Api-Key"), httplimit.WithPolicies("burst"),
		httplimit.WithTimeout(5*time.Second)) // for a slow machine; the default is 100 ms
	if err != nil {
		log.Fatal(err)
	}
	search := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "found") })
	mux := http.NewServeMux()
	mux.Handle("GET /search", m.Handler(search))

	for range 3 {
		r := httptest.NewRequest(http.MethodGet, "/search", nil)
		r.Header.Set("X-Api-Key", "alice")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("RateLimit"))
		if w.Code == http.StatusTooManyRequests {
			fmt.Println("Retry-After:", w.Header().Get("Retry-After"))
			fmt.Println("RateLimit-Policy:", w.Header().Get("RateLimit-Policy"))
			fmt.Println("Content-Type:", w.Header().Get("Content-Type"))
		}
	}
	// Output:
	// 200 "burst";r=1;t=60
	// 200 "burst";r=0;t=60
	// 429 "burst";r=0;t=60
	// Retry-After: 60
	// RateLimit-Policy: "burst";q=2;w=60
	// Content-Type: application/problem+json
}
