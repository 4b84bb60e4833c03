package rratelimiter_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// The Go blocks of README.md and docs/ stand here and in the other example files; TestBlocks compares them.
// The server of the examples is the one of TestMain. An example has no helpers but those in its own file, and
// then it is alone there: so pkg.go.dev shows all that it takes.

func ExampleRateLimiter_TryAcquire() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	limiter := client.RateLimiter("try")
	if err := limiter.SetRate(ctx, rratelimiter.Overall, 2, time.Hour); err != nil {
		log.Fatal(err)
	}
	for range 3 {
		ok, err := limiter.TryAcquire(ctx, 1, time.Second)
		fmt.Println(ok, err)
	}
	_, err := limiter.TryAcquire(ctx, 3, time.Hour)
	fmt.Println(errors.Is(err, rratelimiter.ErrPermitsExceedRate))
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
	// true
}

func ExampleRateLimiter_Acquire() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	limiter := client.RateLimiter("wait")
	if err := limiter.SetRate(ctx, rratelimiter.Overall, 1, time.Hour); err != nil {
		log.Fatal(err)
	}
	fmt.Println(limiter.Acquire(ctx, 1))
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	fmt.Println(limiter.Acquire(ctx, 1))
	// Output:
	// <nil>
	// context deadline exceeded
}

func ExampleWithRefusalCache() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb, rratelimiter.WithRefusalCache(time.Minute))
	defer client.Close()
	users := client.Keyed("api", 2, time.Minute)
	for range 1000 {
		result, err := users.For("mallory").Allow(ctx, 1)
		if err != nil {
			log.Fatal(err)
		}
		if result.Allowed {
			fmt.Println("allowed")
		}
	}
	// Output:
	// allowed
	// allowed
}

func ExampleWithID() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	for _, pod := range []string{"pod-1", "pod-2"} { // each in a process of its own
		client := rratelimiter.New(rdb, rratelimiter.WithID(pod))
		limiter := client.RateLimiter("per-pod")
		if _, err := limiter.TrySetRate(ctx, rratelimiter.PerClient, 1, time.Hour); err != nil {
			log.Fatal(err)
		}
		ok, err := limiter.TryAcquire(ctx, 1, 0)
		fmt.Println(pod, ok, err)
		if err := client.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// pod-1 true <nil>
	// pod-2 true <nil>
}

func ExampleWithRedisson() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	// The oldest Redisson beside this program. It reads records of 3.16.4 to 3.16.8 only.
	client := rratelimiter.New(rdb, rratelimiter.WithRedisson("3.16.8"))
	defer client.Close()
	limiter := client.RateLimiter("old-neighbours")
	if err := limiter.SetRate(ctx, rratelimiter.Overall, 5, time.Hour); err != nil {
		log.Fatal(err)
	}
	if err := limiter.Acquire(ctx, 3); err != nil {
		log.Fatal(err)
	}
	records, err := rdb.ZRange(ctx, "{old-neighbours}:permits", 0, -1).Result()
	fmt.Println(len(records[0]), err) // bytes
	// Output: 20 <nil>
}

func ExampleRateLimiter_Repair() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()
	limiter := client.RateLimiter("api")
	if err := limiter.SetRate(ctx, rratelimiter.Overall, 100, time.Hour); err != nil {
		log.Fatal(err)
	}
	// Redisson 3.16.3 was here, and took 5 permits.
	now, record := float64(time.Now().UnixMilli()), "\x88\x10\x89\xdd\x05\x00\x00\x00"
	rdb.ZAdd(ctx, "{api}:permits", redis.Z{Score: now, Member: record})
	rdb.Set(ctx, "{api}:value", 95, 0)

	repaired, err := limiter.Repair(ctx)
	fmt.Printf("%+v %v\n", repaired, err)
	// Output: {Records:1 Rewritten:1 Dropped:0 Drift:0} <nil>
}

func ExampleRateLimiter_SetRate() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	limiter := client.RateLimiter("deploy")
	if err := limiter.SetRate(ctx, rratelimiter.Overall, 100, time.Minute); err != nil {
		log.Fatal(err)
	}
	if err := limiter.Acquire(ctx, 40); err != nil {
		log.Fatal(err)
	}

	// A new version of the program allows more; what is taken stays counted.
	err := limiter.SetRate(ctx, rratelimiter.Overall, 200, time.Minute, rratelimiter.WithKeepState())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(limiter.AvailablePermits(ctx))
	// Output: 160 <nil>
}

func ExampleRateLimiter_Allow() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	limiter := client.RateLimiter("numbers")
	if err := limiter.SetRate(ctx, rratelimiter.Overall, 2, time.Hour); err != nil {
		log.Fatal(err)
	}
	for range 3 {
		result, err := limiter.Allow(ctx, 1)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Allowed, result.Remaining, "of", result.Limit,
			"retry after", result.RetryAfter.Round(time.Minute))
	}
	// Output:
	// true 1 of 2 retry after 0s
	// true 0 of 2 retry after 0s
	// false 0 of 2 retry after 1h0m0s
}

// The acquires set the rate: at first, when the program has another one, and when Redis has lost it.
func ExampleRateLimiter_WithRate() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	limiter := client.RateLimiter("exports").WithRate(100, time.Minute)
	fmt.Println(limiter.TryAcquire(ctx, 1, 0)) // sets the rate

	limiter = client.RateLimiter("exports").WithRate(50, time.Minute) // in a new version of the program
	fmt.Println(limiter.Allow(ctx, 1))

	if _, err := limiter.Delete(ctx); err != nil { // as if Redis had restarted empty
		log.Fatal(err)
	}
	fmt.Println(limiter.Allow(ctx, 1))
	// Output:
	// true <nil>
	// allowed, 48 of 50 left, full again in 1m0s <nil>
	// allowed, 49 of 50 left, full again in 1m0s <nil>
}

// A Client whose Redis is down limits by itself. Single calls may do something else: here
// logins are refused then, and searches are allowed.
func ExampleWithFallback() {
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb,
		rratelimiter.WithFallback(rratelimiter.FallbackLocal),
		rratelimiter.WithBudget(time.Second),
		rratelimiter.WithHealthHook(func(h rratelimiter.Health) {
			log.Printf("rate limits without Redis: %v (%v)", h.Degraded, h.Cause)
		}),
	)
	defer client.Close()
	ctx := context.Background()

	limiter := client.RateLimiter("api")
	login := client.RateLimiter("login").WithFallback(rratelimiter.FallbackDeny)
	search := client.RateLimiter("search").WithFallback(rratelimiter.FallbackAllow)
	for _, l := range []*rratelimiter.RateLimiter{limiter, login, search} {
		if _, err := l.TrySetRate(ctx, rratelimiter.Overall, 100, time.Second); err != nil {
			log.Fatal(err)
		}
		r, err := l.Allow(ctx, 1)
		fmt.Println(l.Name(), r.Allowed, r.Degraded, err)
	}
	// Output:
	// api true false <nil>
	// login true false <nil>
	// search true false <nil>
}

func ExampleRateLimiter_Reserve() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client, other := rratelimiter.New(rdb), rratelimiter.New(rdb)
	defer client.Close()
	defer other.Close()

	tokens := client.RateLimiter("tokens").WithRate(1000, time.Minute)
	r, err := tokens.Reserve(ctx, 500, time.Second)
	switch {
	case err != nil: // Redis has failed, or an argument is wrong
		log.Fatal(err)
	case r == nil: // refused
		return
	}
	if err := r.Settle(ctx, 120); err != nil { // 380 come back
		log.Fatal(err)
	}
	fmt.Println(tokens.AvailablePermits(ctx))

	r, err = tokens.Reserve(ctx, 500, time.Second)
	if err != nil {
		log.Fatal(err)
	}
	elsewhere, err := other.Reservation(r.ID())
	if err != nil {
		log.Fatal(err)
	}
	if err := elsewhere.Settle(ctx, 120); err != nil {
		log.Fatal(err)
	}
	fmt.Println(tokens.AvailablePermits(ctx))
	// Output:
	// 880 <nil>
	// 760 <nil>
}

func ExampleRateLimiter_Charge() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	tokens := client.RateLimiter("spent").WithRate(500, time.Minute)
	result, err := tokens.Charge(ctx, 700)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Remaining, result.Debt)
	// Output:
	// 0 200
}

func ExampleGroup_Reserve() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	requests := client.RateLimiter("{qa}:requests").WithRate(60, time.Minute)
	tokens := client.RateLimiter("{qa}:tokens").WithRate(1000, time.Minute)
	question := client.All(requests, tokens).Amounts(1, 500)
	r, err := question.Reserve(ctx, 1, time.Second)
	if err != nil {
		log.Fatal(err)
	}
	if r == nil { // refused
		return
	}
	if err := r.Settle(ctx, 1, 120); err != nil { // 1 request, 120 tokens
		log.Fatal(err)
	}
	fmt.Println(tokens.AvailablePermits(ctx))
	// Output:
	// 880 <nil>
}
