package limit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
)

// In a test, a function replaces the limiter of a service.
func ExampleFunc() {
	// The code under test. In the service, limiter is a RateLimiter or a Group.
	greet := func(ctx context.Context, limiter limit.Limiter) string {
		result, err := limiter.Allow(ctx, 1)
		switch {
		case err != nil:
			return "welcome, in spite of: " + err.Error() // it fails open
		case !result.Allowed:
			return fmt.Sprint("come back in ", result.RetryAfter)
		}
		return "welcome"
	}

	refuses := limit.Func(func(context.Context, int64) (limit.Result, error) {
		return limit.Result{Limit: 10, Interval: time.Minute, RetryAfter: 20 * time.Second}, nil
	})
	fails := limit.Func(func(context.Context, int64) (limit.Result, error) {
		return limit.Result{}, errors.New("no answer from Redis")
	})
	fmt.Println(greet(context.Background(), refuses))
	fmt.Println(greet(context.Background(), fails))
	// Output:
	// come back in 20s
	// welcome, in spite of: no answer from Redis
}

// Anonymous visitors share one limit; each other visitor has a limit of 2.
func ExampleKeyedFunc() {
	users, err := fixedwindow.Window{Rate: 2, Interval: time.Minute}.InMemory()
	if err != nil {
		panic(err)
	}
	visitors := limit.KeyedFunc(func(key string) limit.Ledger {
		if strings.HasPrefix(key, "anonymous") {
			return users
		}
		return users.For(key)
	})
	for _, visitor := range []string{"anonymous 1", "anonymous 2", "alice", "anonymous 3"} {
		result, err := visitors.For(visitor).Allow(context.Background(), 1)
		fmt.Println(visitor, result.Allowed, err)
	}
	// Output:
	// anonymous 1 true <nil>
	// anonymous 2 true <nil>
	// alice true <nil>
	// anonymous 3 false <nil>
}

// All visitors share one limit.
func ExampleShared() {
	left := int64(2)
	one := limit.Func(func(_ context.Context, n int64) (limit.Result, error) {
		if n > left {
			return limit.Result{Limit: 2, Remaining: left, RetryAfter: time.Minute}, nil
		}
		left -= n
		return limit.Result{Allowed: true, Limit: 2, Remaining: left}, nil
	})
	all := limit.Shared(one) // a Keyed, which middleware takes
	for _, visitor := range []string{"alice", "bob", "carol"} {
		result, err := all.For(visitor).Allow(context.Background(), 1)
		fmt.Println(visitor, result.Allowed, err)
	}
	// Output:
	// alice true <nil>
	// bob true <nil>
	// carol false <nil>
}
