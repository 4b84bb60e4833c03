package rratelimiter_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// take takes one permit, and sets the rate if none is set.
func take(ctx context.Context, limiter *rratelimiter.RateLimiter) (bool, error) {
	ok, err := limiter.TryAcquire(ctx, 1, 0)
	if !errors.Is(err, rratelimiter.ErrNotInitialized) {
		return ok, err
	}
	keep := rratelimiter.WithKeepAlive(time.Hour)
	if _, err = limiter.TrySetRate(ctx, rratelimiter.Overall, 100, time.Minute, keep); err != nil {
		return false, err
	}
	return limiter.TryAcquire(ctx, 1, 0)
}

func ExampleRateLimiter_TrySetRate() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	limiter := client.RateLimiter("first-start")
	fmt.Println(take(ctx, limiter)) // sets the rate
	fmt.Println(take(ctx, limiter))
	if _, err := limiter.Delete(ctx); err != nil { // as if Redis had restarted empty
		log.Fatal(err)
	}
	fmt.Println(take(ctx, limiter))
	fmt.Println(limiter.AvailablePermits(ctx))
	// Output:
	// true <nil>
	// true <nil>
	// true <nil>
	// 99 <nil>
}
