package httplimit_test

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
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	// Each API key has 2 requests a minute, counted in Redis.
	perKey := client.Keyed("search", 2, time.Minute)
	m, err := httplimit.New(perKey, httplimit.ByHeader("X-Api-Key"))
	if err != nil {
		log.Fatal(err)
	}
	search := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "found") })
	mux := http.NewServeMux()
	mux.Handle("GET /search", m.Handler(search))

	log.Fatal(http.ListenAndServe(":8080", mux))
}
