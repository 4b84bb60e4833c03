package limit_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
)

// The code of a service takes a limit.Limiter. One line chooses its algorithm.
func Example_swap() {
	serve := func(ctx context.Context, limiter limit.Limiter) {
		result, err := limiter.Allow(ctx, 1)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Allowed, result.Interval) // the time for Result.Limit permits
	}

	bucket, err := tokenbucket.Bucket{Capacity: 1, Rate: 2, Interval: time.Minute}.InMemory()
	if err != nil {
		log.Fatal(err)
	}
	serve(context.Background(), bucket)
	serve(context.Background(), bucket)

	window, err := slidingwindow.Log{Rate: 1, Interval: time.Minute}.InMemory() // or OnRedis(rdb, "api")
	if err != nil {
		log.Fatal(err)
	}
	serve(context.Background(), window)
	serve(context.Background(), window)
	// Output:
	// true 30s
	// false 30s
	// true 1m0s
	// false 1m0s
}
