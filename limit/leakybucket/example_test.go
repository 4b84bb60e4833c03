package leakybucket_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/limit/leakybucket"
)

// A bucket that holds two, and leaks one in an hour.
func ExampleMeter_InMemory() {
	l, err := leakybucket.Meter{Capacity: 2, Rate: 1, Interval: time.Hour}.InMemory()
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

// One request each 10 ms, however many come at once.
func ExampleQueue_InMemory() {
	l, err := leakybucket.Queue{Rate: 100, Interval: time.Second, Capacity: 50}.InMemory()
	if err != nil {
		panic(err)
	}
	start := time.Now()
	for range 4 {
		if err := l.Wait(context.Background()); err != nil {
			panic(err)
		}
	}
	fmt.Println(time.Since(start) >= 30*time.Millisecond)
	// Output: true
}

// A partner that must not see more than five requests a second, from all processes together. A caller that
// would wait for more than 20 turns gets an error at once.
func ExampleQueue_OnRedis() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	queue := leakybucket.Queue{Rate: 5, Interval: time.Second, Capacity: 20}
	partner, err := queue.OnRedis(rdb, "partner")
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	switch err := partner.Wait(ctx); {
	case errors.Is(err, leakybucket.ErrFull): // too many callers wait
	case err != nil: // the deadline has passed, or Redis has failed
	}
}
