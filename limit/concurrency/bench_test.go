package concurrency_test

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit/concurrency"
)

// A permit that is taken and given back, beside the semaphore of golang.org/x/sync, which
// has no leases and no numbers.
func BenchmarkTakeAndGiveBack(b *testing.B) {
	ctx := context.Background()
	l := concurrency.Limit{Most: 100, Lease: time.Minute}
	b.Run("Allow", func(b *testing.B) {
		limiter := redistest.Must(l.InMemory())(b)
		b.ReportAllocs()
		for b.Loop() {
			_, _ = limiter.Allow(ctx, 1)
			_ = limiter.Release(ctx, 1)
		}
	})
	b.Run("Acquire", func(b *testing.B) {
		leases := redistest.Must(l.LeasesInMemory())(b)
		b.ReportAllocs()
		for b.Loop() {
			lease, _ := leases.Acquire(ctx, 1)
			_ = lease.Release(ctx)
		}
	})
	b.Run("semaphore", func(b *testing.B) {
		s := semaphore.NewWeighted(l.Most)
		b.ReportAllocs()
		for b.Loop() {
			_ = s.Acquire(ctx, 1)
			s.Release(1)
		}
	})
}
