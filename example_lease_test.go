package rratelimiter_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

func ExampleWithLease() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb, rratelimiter.WithLease(rratelimiter.LeaseOptions{Max: time.Second}))
	defer client.Close()
	limiter := client.RateLimiter("searches").WithRate(600_000, time.Minute)
	for range 100_000 {
		if ok, err := limiter.TryAcquire(ctx, 1, 0); err != nil || !ok {
			log.Fatal(ok, err)
		}
	}
	if err := client.Close(); err != nil { // gives back what is leased
		log.Fatal(err)
	}
	fmt.Println(rdb.Get(ctx, "{searches}:value").Result())
	records, err := rdb.ZCard(ctx, "{searches}:permits").Result()
	fmt.Println(records < 1000, err) // so many script calls, instead of 100,000
	// Output:
	// 500000 <nil>
	// true <nil>
}

func ExampleKeyed_WithLease() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()
	o := rratelimiter.LeaseOptions{Max: time.Second}
	searches := client.RateLimiter("searches").WithLease(o)
	tenants := client.Keyed("tenants", 100_000, time.Hour).WithLease(o)
	if err := searches.SetRate(ctx, rratelimiter.Overall, 600_000, time.Minute); err != nil {
		log.Fatal(err)
	}
	fmt.Println(searches.TryAcquire(ctx, 1, 0))
	fmt.Println(tenants.TryAcquire(ctx, "acme", 1, 0))
	// Output:
	// true <nil>
	// true <nil>
}
