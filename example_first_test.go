package rratelimiter_test

import (
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/httplimit"
)

func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr, ContextTimeoutEnabled: true})
	client := rratelimiter.New(rdb)
	defer client.Close()
	users := client.Keyed("api", 100, time.Minute)

	limited, err := httplimit.New(users, httplimit.ByHeader("X-Api-Key"))
	if err != nil {
		log.Fatal(err)
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	log.Fatal(http.ListenAndServe("localhost:8080", limited.Handler(hello)))
}
