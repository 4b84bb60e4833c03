package rratelimiter_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

func ExampleRateLimiter_SetRate() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	limiter := client.RateLimiter("deploy")
	if err := limiter.SetRate(ctx, rratelimiter.Overall, 100, time.Minute); err != nil {
		log.Fatal(err)
	}
	if err := limiter.Acquire(ctx, 40); err != nil {
		log.Fatal(err)
	}

	// A new version of the program allows more; what is taken stays counted.
	err := limiter.SetRate(ctx, rratelimiter.Overall, 200, time.Minute, rratelimiter.WithKeepState())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(limiter.AvailablePermits(ctx))
	// Output: 160 <nil>
}

func ExampleWithKeepAlive() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	limiter := client.RateLimiter("seldom-used")
	keep := rratelimiter.WithKeepAlive(time.Hour)
	if _, err := limiter.TrySetRate(ctx, rratelimiter.Overall, 100, time.Minute, keep); err != nil {
		log.Fatal(err)
	}
	fmt.Println(limiter.TryAcquire(ctx, 1, 0))
	fmt.Println(limiter.RemainTimeToLive(ctx)) // each use gives it an hour again
	// Output:
	// true <nil>
	// 1h0m0s <nil>
}

func ExampleRateLimiter_Allow() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	limiter := client.RateLimiter("numbers")
	if err := limiter.SetRate(ctx, rratelimiter.Overall, 2, time.Hour); err != nil {
		log.Fatal(err)
	}
	for range 3 {
		result, err := limiter.Allow(ctx, 1)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Allowed, result.Remaining, "of", result.Limit,
			"retry after", result.RetryAfter.Round(time.Minute))
	}
	// Output:
	// true 1 of 2 retry after 0s
	// true 0 of 2 retry after 0s
	// false 0 of 2 retry after 1h0m0s
}

// The acquires set the rate: at first, when the program has another one, and when Redis has
// lost it.
func ExampleRateLimiter_WithRate() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	limiter := client.RateLimiter("exports").WithRate(100, time.Minute)
	fmt.Println(limiter.TryAcquire(ctx, 1, 0)) // sets the rate

	limiter = client.RateLimiter("exports").WithRate(50, time.Minute) // in a new version of the program
	fmt.Println(limiter.Allow(ctx, 1))

	if _, err := limiter.Delete(ctx); err != nil { // as if Redis had restarted empty
		log.Fatal(err)
	}
	fmt.Println(limiter.Allow(ctx, 1))
	// Output:
	// true <nil>
	// allowed, 48 of 50 left, full again in 1m0s <nil>
	// allowed, 49 of 50 left, full again in 1m0s <nil>
}

func ExampleRateLimiter_TrySetRate() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	limiter := client.RateLimiter("first-start")
	for range 2 { // of all processes one sets the rate
		fmt.Println(limiter.TrySetRate(ctx, rratelimiter.Overall, 100, time.Minute))
	}
	// Output:
	// true <nil>
	// false <nil>
}
