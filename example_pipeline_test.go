package rratelimiter_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
)

// A pipelined client sends the scripts of callers who come at once in one pipeline. All else
// is the client's own.
type pipelined struct {
	*redis.Client
	auto *redis.AutoPipeliner
}

func (p pipelined) Process(ctx context.Context, cmd redis.Cmder) error {
	return p.auto.Process(ctx, cmd)
}

// Many callers of many limits share the round trips of one pipeline. The AutoPipeliner is
// closed before its client.
func Example_autoPipeline() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	auto, err := rdb.AutoPipeline()
	if err != nil {
		log.Fatal(err)
	}
	defer auto.Close()

	// The limiters of limit/ take the AutoPipeliner.
	users, err := fixedwindow.Window{Rate: 100, Interval: time.Minute}.OnRedisKeyed(auto, "api")
	if err != nil {
		log.Fatal(err)
	}
	result, err := users.Allow(ctx, "alice", 1)
	fmt.Println(result.Remaining, err)

	// A Client must see what is behind it.
	client := rratelimiter.New(pipelined{rdb, auto})
	defer client.Close()
	ok, err := client.Keyed("pages", 100, time.Minute).TryAcquire(ctx, "alice", 1, 0)
	fmt.Println(ok, err)
	// Output:
	// 99 <nil>
	// true <nil>
}
