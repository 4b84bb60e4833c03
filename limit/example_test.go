package limit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
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

// Anonymous visitors have no permits left; all other visitors have 10 each.
func ExampleOf() {
	visitors := limit.KeyedFunc(func(_ context.Context, key string, n int64) (limit.Result, error) {
		if key == "anonymous" {
			return limit.Result{Name: key, Limit: 10, RetryAfter: time.Second}, nil
		}
		return limit.Result{Allowed: true, Name: key, Limit: 10, Remaining: 10 - n}, nil
	})
	for _, visitor := range []string{"alice", "anonymous"} {
		limiter := limit.Of(visitors, visitor) // a Limiter, without keys
		result, err := limiter.Allow(context.Background(), 1)
		fmt.Println(result.Name, result.Allowed, err)
	}
	// Output:
	// alice true <nil>
	// anonymous false <nil>
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
		result, err := all.Allow(context.Background(), visitor, 1)
		fmt.Println(visitor, result.Allowed, err)
	}
	// Output:
	// alice true <nil>
	// bob true <nil>
	// carol false <nil>
}
