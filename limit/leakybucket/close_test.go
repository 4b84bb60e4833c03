package leakybucket_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit/leakybucket"
)

// A caller that leaves the line of a Client gives its turn back, also if the Client is closed at once.
func TestCloseWaitsForReturnedTurns(t *testing.T) {
	rdb := redistest.MiniClient(t, redistest.Mini(t))
	queue := leakybucket.Queue{Rate: 1, Interval: time.Hour, Capacity: 100}
	before := redistest.Must(queue.OnRedis(rdb, "line"))(t)
	redistest.NoError(t, before.Wait(t.Context()))
	owed := redistest.Must(before.Peek(t.Context()))(t).ResetAfter
	for range 20 {
		client := rratelimiter.New(rdb)
		line := redistest.Must(queue.OnRedis(client.Redis(), "line"))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		if err := line.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Wait: %v, must end with its context", err)
		}
		cancel()
		redistest.NoError(t, client.Close())
		if got := redistest.Must(before.Peek(t.Context()))(t).ResetAfter; got > owed {
			t.Fatalf("after Close %v are owed, must be at most %v", got, owed)
		}
	}
}
