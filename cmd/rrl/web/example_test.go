package web_test

import (
	"log"
	"net/http"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/cmd/rrl/web"
)

func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()
	limits, err := web.New(rdb, web.Config{Prefix: "/limits/"})
	if err != nil {
		log.Fatal(err)
	}
	defer limits.Close()
	http.Handle("/limits/", limits) // behind the login of the other pages
	log.Fatal(http.ListenAndServe("localhost:8080", nil))
}
