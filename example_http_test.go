package rratelimiter_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"time"

	"github.com/redisson-go/rratelimiter"
)

// limit lets a request through to next if it gets a permit.
func limit(limiter *rratelimiter.RateLimiter, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 100*time.Millisecond)
		result, err := limiter.Allow(ctx, 1)
		cancel()
		if err != nil {
			log.Print(err) // not for the visitor
			http.Error(w, "try again later", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("RateLimit-Limit", strconv.FormatInt(result.Limit, 10))
		w.Header().Set("RateLimit-Remaining", strconv.FormatInt(result.Remaining, 10))
		w.Header().Set("RateLimit-Reset", seconds(result.ResetAfter))
		if !result.Allowed {
			w.Header().Set("Retry-After", seconds(max(result.RetryAfter, time.Second)))
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// seconds returns d in whole seconds, rounded up.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(math.Ceil(d.Seconds()), 'f', 0, 64)
}

func ExampleRateLimiter_Allow() {
	ctx := context.Background()
	noon := time.Now() // a clock that stands still, to print the same each time
	client := rratelimiter.New(exampleRedis(), rratelimiter.WithClock(func() time.Time { return noon }))
	limiter := client.RateLimiter("http")
	if err := limiter.SetRate(ctx, rratelimiter.Overall, 1, time.Hour); err != nil {
		log.Fatal(err)
	}
	log.SetFlags(0)
	log.SetOutput(os.Stdout)
	defer log.SetOutput(os.Stderr)

	handler := limit(limiter, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "welcome")
	}))
	visit := func() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Print(w.Code, " ", w.Body)
		for _, name := range []string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset",
			"Retry-After"} {
			if value := w.Header().Get(name); value != "" {
				fmt.Println(name+":", value)
			}
		}
	}
	visit()
	visit()
	if _, err := limiter.Delete(ctx); err != nil { // then there is no rate
		log.Fatal(err)
	}
	visit()
	// Output:
	// 200 welcome
	// RateLimit-Limit: 1
	// RateLimit-Remaining: 0
	// RateLimit-Reset: 3600
	// 429 too many requests
	// RateLimit-Limit: 1
	// RateLimit-Remaining: 0
	// RateLimit-Reset: 3600
	// Retry-After: 3600
	// rratelimiter: no rate is set for "http" (see TrySetRate)
	// 503 try again later
}
