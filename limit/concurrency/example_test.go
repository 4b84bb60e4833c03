package concurrency_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/limit/concurrency"
)

// At most two at once, in this process.
func ExampleLimit_InMemory() {
	ctx := context.Background()
	leases, err := concurrency.Limit{Most: 2, Lease: time.Minute}.InMemory()
	if err != nil {
		panic(err)
	}
	one, _, _ := leases.TryAcquire(ctx, 1)
	_, _, _ = leases.TryAcquire(ctx, 1)
	_, ok, _ := leases.TryAcquire(ctx, 1)
	fmt.Println(ok)

	_ = one.Release(ctx)
	_, ok, _ = leases.TryAcquire(ctx, 1)
	fmt.Println(ok)
	// Output:
	// false
	// true
}

// A handler that serves at most 20 requests at once, in all processes together. A visitor waits for at most
// 2 s.
func ExampleLimit_OnRedis() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	leases, err := concurrency.Limit{Most: 20, Lease: time.Minute}.OnRedis(rdb, "reports")
	if err != nil {
		panic(err)
	}
	http.HandleFunc("/report", func(w http.ResponseWriter, r *http.Request) {
		wait, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		lease, err := leases.Acquire(wait, 1)
		if err != nil {
			http.Error(w, "too many reports are being made", http.StatusServiceUnavailable)
			return
		}
		// Also gives the permit back if the visitor leaves.
		defer func() { _ = lease.Release(context.WithoutCancel(r.Context())) }()

		// Ends the work before another request may have the permit.
		ctx, cancel := context.WithDeadline(r.Context(), lease.Expires())
		defer cancel()
		report(ctx, w)
	})
}

func report(_ context.Context, w http.ResponseWriter) { fmt.Fprintln(w, "42") }

// Long work extends its lease while the process is alive.
func ExampleLease_Extend() {
	leases, err := concurrency.Limit{Most: 3, Lease: 30 * time.Second}.InMemory()
	if err != nil {
		panic(err)
	}
	work := func(ctx context.Context, steps int) error {
		lease, err := leases.Acquire(ctx, 1)
		if err != nil {
			return err
		}
		defer func() { _ = lease.Release(context.WithoutCancel(ctx)) }()
		for range steps {
			// A step of less than 30 s.
			if err := lease.Extend(ctx); err != nil {
				return err // another caller may have the permit
			}
		}
		return nil
	}
	fmt.Println(work(context.Background(), 100))
	// Output: <nil>
}
