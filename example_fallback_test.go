package rratelimiter_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// A Client whose Redis is away limits by itself. Single calls may do something else: here
// nobody logs in then, and everybody may search.
func ExampleWithFallback() {
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb,
		rratelimiter.WithFallback(rratelimiter.FallbackLocal),
		rratelimiter.WithBudget(100*time.Millisecond),
		rratelimiter.WithHealthHook(func(h rratelimiter.Health) {
			log.Printf("rate limits without Redis: %v (%v)", h.Degraded, h.Cause)
		}),
	)
	defer client.Close()
	ctx := context.Background()

	limiter := client.RateLimiter("api")
	login := client.RateLimiter("login").WithFallback(rratelimiter.FallbackDeny)
	search := client.RateLimiter("search").WithFallback(rratelimiter.FallbackAllow)
	for _, l := range []*rratelimiter.RateLimiter{limiter, login, search} {
		if _, err := l.TrySetRate(ctx, rratelimiter.Overall, 100, time.Second); err != nil {
			log.Fatal(err)
		}
		r, err := l.Allow(ctx, 1)
		fmt.Println(l.Name(), r.Allowed, r.Degraded, err)
	}
	// Output:
	// api true false <nil>
	// login true false <nil>
	// search true false <nil>
}
