package fixedwindow_test

import (
	"context"
	"fmt"
	"time"

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
