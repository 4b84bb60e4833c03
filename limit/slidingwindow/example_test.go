package slidingwindow_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
)

// Each permit comes back an interval after it was taken. The clock is that of a simulation.
func ExampleLog_InMemory() {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	clock := limit.WithClock(func() time.Time { return now })
	l, err := slidingwindow.Log{Rate: 2, Interval: time.Minute}.InMemory(clock)
	if err != nil {
		panic(err)
	}
	for range 4 {
		r, _ := l.Allow(context.Background(), 1)
		fmt.Println(now.Format("15:04:05"), r.Allowed, r.RetryAfter)
		now = now.Add(20 * time.Second)
	}
	// Output:
	// 12:00:00 true 0s
	// 12:00:20 true 0s
	// 12:00:40 false 20s
	// 12:01:00 true 0s
}

// Some permits of a burst are back before an interval has passed, some after it.
func ExampleCounter_InMemory() {
	now := time.Date(2030, 1, 1, 12, 0, 30, 0, time.UTC)
	clock := limit.WithClock(func() time.Time { return now })
	l, err := slidingwindow.Counter{Rate: 100, Interval: time.Minute, Parts: 1}.InMemory(clock)
	if err != nil {
		panic(err)
	}
	r, _ := l.Allow(context.Background(), 100)
	fmt.Println(now.Format("15:04:05"), r.Allowed, r.Remaining)
	for range 2 {
		now = now.Add(45 * time.Second)
		r, _ = l.Allow(context.Background(), 1)
		fmt.Println(now.Format("15:04:05"), r.Allowed, r.Remaining)
	}
	// Output:
	// 12:00:30 true 0
	// 12:01:15 true 24
	// 12:02:00 true 98
}
