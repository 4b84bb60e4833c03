package rratelimiter_test

import (
	"context"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// A counter is an Observer that counts. Callers wait for an Observer: it must be quick.
type counter struct{ granted, refused, failed atomic.Int64 }

func (t *counter) Observe(_ context.Context, o rratelimiter.Observation) {
	switch {
	case o.Err != nil:
		t.failed.Add(1)
	case o.Result.Allowed:
		t.granted.Add(1)
	default:
		t.refused.Add(1)
	}
}

func ExampleWithObserver() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	var counts counter
	client := rratelimiter.New(rdb, rratelimiter.WithObserver(&counts))
	defer client.Close()

	observed := client.Keyed("observed", 2, time.Minute)
	for range 3 {
		if _, err := observed.For("alice").TryAcquire(ctx, 1, 0); err != nil {
			log.Print(err)
		}
	}
	if _, err := observed.For("alice").TryAcquire(ctx, 3, 0); err != nil { // more than the rate
		fmt.Println(err)
	}
	fmt.Println(counts.granted.Load(), counts.refused.Load(), counts.failed.Load())
	// Output:
	// rratelimiter: permits exceed the rate of "observed:{alice}": permits is 3, must be at most 2
	// 2 1 1
}
