package rratelimiter_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
)

func ExampleClient_Keyed() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	// Each user has 2 requests a minute. The first request of a user sets the rate.
	users := client.Keyed("visits", 2, time.Minute)
	for _, user := range []string{"alice", "alice", "alice", "bob"} {
		ok, err := users.For(user).TryAcquire(ctx, 1, 0)
		fmt.Println(user, ok, err)
	}
	// Output:
	// alice true <nil>
	// alice true <nil>
	// alice false <nil>
	// bob true <nil>
}

func ExampleKeyed_For() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	mails := client.Keyed("mails", 5, time.Hour)
	alice := mails.For("alice") // it has all methods of a RateLimiter
	if err := alice.Acquire(ctx, 3); err != nil {
		log.Fatal(err)
	}
	if err := alice.Release(ctx, 1); err != nil { // a mail could not be sent
		log.Fatal(err)
	}
	fmt.Println(alice.AvailablePermits(ctx))
	fmt.Println(alice.RemainTimeToLive(ctx)) // two intervals, from each use on
	// Output:
	// 3 <nil>
	// 2h0m0s <nil>
}

// Permits that a customer has taken stay counted when the plan changes: the plans have one name.
func ExampleClient_Keyed_plans() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	plans := map[string]*rratelimiter.Keyed{
		"free": client.Keyed("calls", 10, time.Hour),
		"paid": client.Keyed("calls", 1000, time.Hour),
	}
	for _, plan := range []string{"free", "paid"} {
		result, err := plans[plan].For("alice").Allow(ctx, 4)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(plan, result.Remaining, "of", result.Limit)
	}
	// Output:
	// free 6 of 10
	// paid 992 of 1000
}

func ExampleClient_All() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	// 5 a second and 8 a minute, for each user. {sms} keeps both in one slot of a cluster.
	second := client.Keyed("{sms}:second", 5, time.Second)
	minute := client.Keyed("{sms}:minute", 8, time.Minute)
	alice := client.All(second.For("alice"), minute.For("alice"))

	for range 2 {
		result, err := alice.Allow(ctx, 5)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Allowed, result.Name) // the limiter that binds
		for _, each := range result.Each {
			fmt.Println("    ", each.Name, each.Remaining, "of", each.Limit)
		}
		time.Sleep(result.Each[0].ResetAfter)
	}
	// Output:
	// true {sms}:second:[alice]
	//      {sms}:second:[alice] 0 of 5
	//      {sms}:minute:[alice] 3 of 8
	// false {sms}:minute:[alice]
	//      {sms}:second:[alice] 5 of 5
	//      {sms}:minute:[alice] 3 of 8
}

// A user has 2 requests a minute, and all users together have 3. Both is one limit to middleware.
func ExampleGroup() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	user := client.Keyed("{site}:user", 2, time.Minute)
	all := client.Keyed("{site}:all", 3, time.Minute).For("users")
	both := limit.KeyedFunc(func(key string) *rratelimiter.Group {
		return client.All(user.For(key), all)
	})

	for _, name := range []string{"alice", "alice", "alice", "bob", "bob"} {
		result, err := both.For(name).Allow(ctx, 1)
		fmt.Println(name, result.Allowed, result.Name, err)
	}
	// Output:
	// alice true {site}:user:[alice] <nil>
	// alice true {site}:user:[alice] <nil>
	// alice false {site}:user:[alice] <nil>
	// bob true {site}:all:[users] <nil>
	// bob false {site}:all:[users] <nil>
}

// A language model allows 60 requests and 10,000 tokens a minute.
func ExampleGroup_Amounts() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	requests := client.Keyed("{llm}:requests", 60, time.Minute).For("model")
	tokens := client.Keyed("{llm}:tokens", 10_000, time.Minute).For("model")
	model := client.All(requests, tokens)

	// 1 request and 3,500 tokens: as many as the answer may have.
	question := model.Amounts(1, 3500)
	if err := question.Acquire(ctx, 1); err != nil {
		log.Fatal(err)
	}
	used := int64(1200) // the answer says so
	if err := tokens.Release(ctx, 3500-used); err != nil {
		log.Fatal(err)
	}
	fmt.Println(tokens.AvailablePermits(ctx))

	// Another question was never sent: all of it goes back.
	if err := question.Acquire(ctx, 1); err != nil {
		log.Fatal(err)
	}
	if err := question.Release(ctx, 1); err != nil {
		log.Fatal(err)
	}
	fmt.Println(requests.AvailablePermits(ctx))
	fmt.Println(tokens.AvailablePermits(ctx))
	// Output:
	// 8800 <nil>
	// 59 <nil>
	// 8800 <nil>
}

func ExampleWithLease() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb, rratelimiter.WithLease(rratelimiter.LeaseOptions{Max: time.Second}))
	defer client.Close()
	limiter := client.RateLimiter("searches").WithRate(600_000, time.Minute)
	for range 100_000 {
		if ok, err := limiter.TryAcquire(ctx, 1, 0); err != nil || !ok {
			log.Fatal(ok, err)
		}
	}
	if err := client.Close(); err != nil { // gives back what is leased
		log.Fatal(err)
	}
	fmt.Println(rdb.Get(ctx, "{searches}:value").Result())
	records, err := rdb.ZCard(ctx, "{searches}:permits").Result()
	fmt.Println(records < 1000, err) // so many script calls, instead of 100,000
	// Output:
	// 500000 <nil>
	// true <nil>
}

func ExampleKeyed_WithLease() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()
	o := rratelimiter.LeaseOptions{Max: time.Second}
	searches := client.RateLimiter("searches").WithLease(o)
	tenants := client.Keyed("tenants", 100_000, time.Hour).WithLease(o)
	if err := searches.SetRate(ctx, rratelimiter.Overall, 600_000, time.Minute); err != nil {
		log.Fatal(err)
	}
	fmt.Println(searches.TryAcquire(ctx, 1, 0))
	fmt.Println(tenants.For("acme").TryAcquire(ctx, 1, 0))
	// Output:
	// true <nil>
	// true <nil>
}

// A token bucket for each user, which this process keeps while Redis is down.
func ExampleClient_Redis() {
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb, rratelimiter.WithFallback(rratelimiter.FallbackLocal))
	defer client.Close()

	searches := tokenbucket.Bucket{Capacity: 20, Rate: 10, Interval: time.Second}
	users, err := searches.OnRedis(client.Redis(), "searches")
	if err != nil {
		log.Fatal(err)
	}
	r, err := users.For("alice").Allow(context.Background(), 5)
	fmt.Println(r.Allowed, r.Remaining, err)
	// Output: true 15 <nil>
}
