package rratelimiter_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
)

// A token bucket for each user, which this process keeps while Redis is down.
func ExampleClient_Redis() {
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb, rratelimiter.WithFallback(rratelimiter.FallbackLocal))
	defer client.Close()

	searches := tokenbucket.Bucket{Capacity: 20, Rate: 10, Interval: time.Second}
	users, err := searches.OnRedis(client.Redis(), "searches")
	if err != nil {
		log.Fatal(err)
	}
	r, err := users.For("alice").Allow(context.Background(), 5)
	fmt.Println(r.Allowed, r.Remaining, err)
	// Output: true 15 <nil>
}
