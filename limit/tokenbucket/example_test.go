package tokenbucket_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
)

// A burst of three, and then one permit in ten seconds.
func ExampleBucket_InMemory() {
	l, err := tokenbucket.Bucket{Capacity: 3, Rate: 0.1, Interval: time.Second}.InMemory()
	if err != nil {
		panic(err)
	}
	for range 4 {
		r, _ := l.Allow(context.Background(), 1)
		fmt.Println(r.Allowed, r.Remaining, r.RetryAfter.Round(10*time.Second))
	}
	// Output:
	// true 2 0s
	// true 1 0s
	// true 0 0s
	// false 0 10s
}

// A bucket for each user, shared by all processes.
func ExampleBucket_OnRedis() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	users, err := tokenbucket.Bucket{Capacity: 100, Rate: 10, Interval: time.Second}.OnRedis(rdb, "api")
	if err != nil {
		panic(err)
	}
	r, err := users.For("alice").Allow(context.Background(), 1)
	switch {
	case err != nil: // Redis has failed
	case !r.Allowed: // come back after r.RetryAfter
	}
}

// The next caller pays: the first goes at once, whatever it asks for.
func ExampleSmoothLimiter_Acquire() {
	l, err := tokenbucket.Smooth{Rate: 10, Interval: time.Second}.InMemory()
	if err != nil {
		panic(err)
	}
	for range 2 {
		waited, err := l.Acquire(context.Background(), 10)
		fmt.Println(waited.Round(time.Second), err)
	}
	// Output:
	// 0s <nil>
	// 1s <nil>
}
