package httplimit_test

import (
	"os"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// exampleAddr is where the Redis of the examples listens.
var exampleAddr string

// What is left for TestMain to close, so that the examples need not show it.
var exampleClosers []func() error

func TestMain(m *testing.M) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		panic(err)
	}
	exampleAddr = server.Addr()
	code := m.Run()
	for _, c := range exampleClosers {
		_ = c()
	}
	server.Close()
	os.Exit(code)
}

func exampleClient() *rratelimiter.Client {
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	client := rratelimiter.New(rdb)
	exampleClosers = append(exampleClosers, client.Close, rdb.Close)
	return client
}
