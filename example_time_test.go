package rratelimiter_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

func TestPermitsComeBack(t *testing.T) {
	server := miniredis.RunT(t)
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	server.SetTime(noon) // it stays noon until the test says otherwise
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	client := rratelimiter.New(rdb)
	defer rdb.Close()
	defer client.Close()

	limiter := client.RateLimiter("api")
	if err := limiter.SetRate(t.Context(), rratelimiter.Overall, 1, time.Hour); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if ok, err := limiter.TryAcquire(t.Context(), 1, 0); ok != want || err != nil {
			t.Fatal(ok, err)
		}
	}
	server.SetTime(noon.Add(time.Hour)) // one interval later, without sleeping
	if ok, err := limiter.TryAcquire(t.Context(), 1, 0); !ok || err != nil {
		t.Fatal(ok, err)
	}
}
