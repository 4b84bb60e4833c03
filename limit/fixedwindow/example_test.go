package fixedwindow_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
)

// A limiter in this process.
func ExampleWindow_InMemory() {
	l, err := fixedwindow.Window{Rate: 2, Interval: time.Hour}.InMemory()
	if err != nil {
		panic(err)
	}
	for range 3 {
		r, _ := l.Allow(context.Background(), 1)
		fmt.Println(r.Allowed, r.Remaining)
	}
	// Output:
	// true 1
	// true 0
	// false 0
}

// A limit for each user, shared by all processes.
func ExampleWindow_OnRedisKeyed() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	users, err := fixedwindow.Window{Rate: 1000, Interval: 24 * time.Hour}.OnRedisKeyed(rdb, "exports")
	if err != nil {
		panic(err)
	}
	r, err := users.Allow(context.Background(), "alice", 1)
	switch {
	case err != nil: // Redis has failed
	case !r.Allowed: // come back after r.RetryAfter
	}
}
