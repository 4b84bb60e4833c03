package fixedwindow_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
)

// A limiter in this process.
func ExampleWindow_InMemory() {
	l, err := fixedwindow.Window{Rate: 2, Interval: time.Hour}.InMemory()
	if err != nil {
		panic(err)
	}
	for range 3 {
		r, _ := l.Allow(context.Background(), 1)
		fmt.Println(r.Allowed, r.Remaining)
	}
	// Output:
	// true 1
	// true 0
	// false 0
}

// A quota of a month, which begins anew on the first, at midnight in Berlin.
func ExampleCalendar_InMemory() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	quota := fixedwindow.Calendar{Rate: 1000, Unit: fixedwindow.Month, Location: berlin}
	may := func() time.Time { return time.Date(2026, time.May, 31, 12, 0, 0, 0, berlin) }
	l, err := quota.InMemory(limit.WithClock(may))
	if err != nil {
		panic(err)
	}
	r, _ := l.Allow(context.Background(), 1)
	fmt.Println(r.Remaining, r.ResetAfter)
	// Output: 999 12h0m0s
}
