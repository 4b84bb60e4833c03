package rratelimiter_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/redisson-go/rratelimiter"
)

func TestWaitsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := miniredis.NewMiniRedis()
		server.ClockTTL(true) // keys expire by the clock of the bubble
		defer server.Close()
		rdb := redis.NewClient(&redis.Options{
			Dialer: func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
			// More connections than callers, and no look-up of the server's name: what
			// go-redis keeps of these for the whole process belongs to no bubble.
			PoolSize:                 1000,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		defer rdb.Close()
		client := rratelimiter.New(rdb, rratelimiter.WithGoOnly()) // waits end on time
		defer client.Close()

		reports := client.Keyed("reports", 1, time.Minute)
		start := time.Now()
		for range 3 {
			if err := reports.For("alice").Acquire(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 2*time.Minute {
			t.Errorf("three reports took %v", took)
		}
	})
}

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
