package rratelimiter_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// pass reports whether a request may go on.
func pass(ctx context.Context, limiter *rratelimiter.RateLimiter) bool {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	ok, err := limiter.TryAcquire(ctx, 1, 0)
	if err != nil {
		log.Print(err)
		return true // fail open; return false to fail closed
	}
	return ok
}

// The server never replies, so the request passes: the service fails open.
func Example_failOpen() {
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
