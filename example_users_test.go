package rratelimiter_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

func ExampleClient_Keyed() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	// Each user has 2 requests a minute. Nobody sets a rate: the first acquire does.
	users := client.Keyed("visits", 2, time.Minute)
	for _, user := range []string{"alice", "alice", "alice", "bob"} {
		ok, err := users.TryAcquire(ctx, user, 1, 0)
		fmt.Println(user, ok, err)
	}
	// Output:
	// alice true <nil>
	// alice true <nil>
	// alice false <nil>
	// bob true <nil>
}

func ExampleKeyed_Allow() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	downloads := client.Keyed("downloads", 3, time.Hour)
	result, err := downloads.Allow(ctx, "alice", 2)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Allowed, result.Name, result.Remaining, "of", result.Limit)
	result, err = downloads.Allow(ctx, "alice", 2)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Allowed, "retry after", result.RetryAfter.Round(time.Minute))
	// Output:
	// true downloads:{alice} 1 of 3
	// false retry after 1h0m0s
}

func ExampleKeyed_RateLimiter() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	mails := client.Keyed("mails", 5, time.Hour)
	alice := mails.RateLimiter("alice") // it has all methods of a RateLimiter
	if err := alice.Acquire(ctx, 3); err != nil {
		log.Fatal(err)
	}
	if err := alice.Release(ctx, 1); err != nil { // a mail could not be sent
		log.Fatal(err)
	}
	fmt.Println(alice.AvailablePermits(ctx))
	fmt.Println(alice.RemainTimeToLive(ctx)) // two intervals, from each use on
	// Output:
	// 3 <nil>
	// 2h0m0s <nil>
}

// What a customer has taken stays counted when the plan changes, for the plans have one
// name.
func ExampleClient_Keyed_plans() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	plans := map[string]*rratelimiter.Keyed{
		"free": client.Keyed("calls", 10, time.Hour),
		"paid": client.Keyed("calls", 1000, time.Hour),
	}
	for _, plan := range []string{"free", "paid"} {
		result, err := plans[plan].Allow(ctx, "alice", 4)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(plan, result.Remaining, "of", result.Limit)
	}
	// Output:
	// free 6 of 10
	// paid 992 of 1000
}
