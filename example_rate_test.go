package rratelimiter_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
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

// pass reports whether a request may go on.
func pass(ctx context.Context, limiter *rratelimiter.RateLimiter) bool {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	ok, err := take(ctx, limiter)
	if err != nil {
		log.Print(err)
		return true // fail open; return false to fail closed
	}
	return ok
}

func ExampleRateLimiter_TrySetRate() {
	ctx := context.Background()
	limiter := exampleClient().RateLimiter("first-start")
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

func ExampleRateLimiter_SetRate() {
	ctx := context.Background()
	limiter := exampleClient().RateLimiter("deploy")
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
	client := exampleClient()
	for _, user := range []string{"alice", "bob"} {
		limiter := client.RateLimiter("api:user:" + user)
		ok, err := take(ctx, limiter)
		fmt.Println(user, ok, err)
		fmt.Println(limiter.RemainTimeToLive(ctx)) // each use gives it an hour again
	}
	// Output:
	// alice true <nil>
	// 1h0m0s <nil>
	// bob true <nil>
	// 1h0m0s <nil>
}

// The server never replies, so the request passes: the service fails open.
func ExampleClient_RateLimiter() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer listener.Close()
	rdb := redis.NewClient(&redis.Options{Addr: listener.Addr().String()})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()
	log.SetOutput(io.Discard)
	defer log.SetOutput(os.Stderr)
	fmt.Println(pass(context.Background(), client.RateLimiter("silent")))
	// Output: true
}
