package rratelimiter_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

func Example() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	limiter := client.RateLimiter("api").WithRate(100, time.Second)
	ok, err := limiter.TryAcquire(ctx, 1, 500*time.Millisecond)
	fmt.Println(ok, err)
	// Output: true <nil>
}
