package httplimit_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// exampleAddr is the address of the Redis of the examples.
var exampleAddr string

func TestMain(m *testing.M) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		panic(err)
	}
	// Its clock is stopped, so that the examples print the same on a slow machine.
	server.SetTime(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC))
	exampleAddr = server.Addr()
	warmUp()
	code := m.Run()
	server.Close()
	os.Exit(code)
}

// warmUp lets the first call of the process, which takes longest, be none of an example: those have 100 ms.
func warmUp() {
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()
	if _, err := client.Keyed("first", 1, time.Minute).Allow(context.Background(), "call", 1); err != nil {
		panic(err)
	}
}
