package rratelimiter_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

func TestWaitsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := miniredis.NewMiniRedis()
		server.ClockTTL(true) // keys expire by the clock of the bubble
		defer server.Close()
		rdb := redis.NewClient(&redis.Options{
			Dialer:   func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
			PoolSize: 1000, // more than callers: go-redis must not wait for a connection here
		})
		defer rdb.Close()
		client := rratelimiter.New(rdb, rratelimiter.WithGoOnly()) // waits end on time
		defer client.Close()

		reports := client.Template("reports", 1, time.Hour)
		start := time.Now()
		for range 3 {
			if err := reports.Acquire(t.Context(), "alice", 1); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 2*time.Hour {
			t.Errorf("three reports took %v", took)
		}
	})
}
