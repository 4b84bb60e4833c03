package rlock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/rlock"
)

func Example() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb) // limiters and locks share it
	defer client.Close()
	locks := rlock.New(client)

	hold, err := locks.Lock("report").Lock(ctx) // waits until it is free, or ctx ends
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the report is ours")
	if err := hold.Unlock(ctx); err != nil {
		log.Print(err) // it was lost meanwhile
	}
	// Output: the report is ours
}

// TryLock waits for a lock no longer than its timeout.
func ExampleLock_TryLock() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()
	lock := rlock.New(client).Lock("invoice:42")

	// At most a second to get it; then at most 10 seconds to have it.
	hold, ok, err := lock.TryLock(ctx, time.Second, 10*time.Second)
	fmt.Println(ok, err)
	_, again, err := lock.TryLock(ctx, 0, 0) // a single attempt
	fmt.Println(again, err)
	err = hold.Unlock(ctx)
	fmt.Println(err)
	// Output:
	// true <nil>
	// false <nil>
	// <nil>
}

// Work under a lock stops when the lock is lost.
func ExampleHold_Context() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	hold, err := rlock.New(client).Lock("import").LockFor(ctx, time.Second)
	if err != nil {
		log.Fatal(err)
	}
	lines := make(chan string) // nothing comes
	select {
	case line := <-lines:
		fmt.Println(line)
	case <-hold.Context().Done(): // the lease has expired
		fmt.Println("stopped")
	}
	// Output: stopped
}
