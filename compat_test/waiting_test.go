package compat_test

import (
	"context"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/compare"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// The server of the suite sends keyspace notifications.
var _ = Describe("A caller that waits in Go", func() { waitingSpecs(newest) })

// waitingSpecs are the specs of waiting in Go beside a generation.
func waitingSpecs(g *generation) {
	javas, gos := g.javas, g.gos
	changes := []TableEntry{
		Entry("setRate", func(ctx context.Context, java limiter) {
			done(java.SetRate(ctx, config(overall, 6, time.Hour), false))
		}),
	}
	if g.since(sinceRelease) {
		changes = append(changes, Entry("release", func(ctx context.Context, java limiter) {
			done(java.Release(ctx, 2))
		}))
	}
	if g.since(sinceUpdateRate) {
		changes = append(changes, Entry("updateRate, keeping state", func(ctx context.Context, java limiter) {
			yes(java.UpdateRate(ctx, config(overall, 7, time.Hour), true))
		}))
	}

	type changing func(ctx context.Context, java limiter)
	DescribeTable("is woken by what Java changes", func(ctx SpecContext, change changing) {
		name := redistest.Name(GinkgoT())
		java, g := javas[0].limiter(name), gos[0].limiter(name)
		yes(java.TrySetRate(ctx, config(overall, 5, time.Hour)))
		yes(java.TryAcquire(ctx, 5, 0))
		served := make(chan error, 1)
		go func() { served <- g.Acquire(ctx, 2) }()
		subscribed(ctx, name)
		change(ctx, java)
		Eventually(ctx, served).WithTimeout(5 * time.Second).Should(Receive(BeNil()))
	}, changes)

	It("gets an error when Java has deleted the limiter", func(ctx SpecContext) {
		name := redistest.Name(GinkgoT())
		yes(javas[0].limiter(name).TrySetRate(ctx, config(overall, 5, time.Hour)))
		yes(gos[0].limiter(name).TryAcquire(ctx, 5, 0))
		ended := make(chan error, 1)
		go func() { ended <- gos[0].limiter(name).Acquire(ctx, 2) }()
		subscribed(ctx, name)
		yes(javas[0].limiter(name).Delete(ctx))
		Eventually(ctx, ended).WithTimeout(5 * time.Second).
			Should(Receive(MatchError(rratelimiter.ErrNotInitialized)))
	})
}

// subscribed waits until Go listens to what happens to the value of a limiter.
func subscribed(ctx context.Context, name string) {
	GinkgoHelper()
	listens(ctx, "__keyspace@0__:"+keysOf(name).value, 1)
}

var _ = Describe("Listeners", func() { listenerSpecs(newest) })

// listenerSpecs is the spec of listeners beside a generation.
func listenerSpecs(g *generation) {
	javas, gos := g.javas, g.gos

	It("of Go hear of what Java deletes, as those of Java do", func(ctx SpecContext) {
		name := redistest.Name(GinkgoT())
		var deletions atomic.Int32
		stop, err := gos[0].c.RateLimiter(name).OnDeleted(ctx, func(string) { deletions.Add(1) })
		done(err)
		defer stop()
		java := javas[0].limiter(name)
		yes(java.TrySetRate(ctx, config(overall, 5, minute)))
		yes(java.Delete(ctx))
		Eventually(ctx, deletions.Load).WithTimeout(5 * time.Second).Should(Equal(int32(1)))
	})
}

var _ = Describe("Records with a resolution", func() { resolutionSpecs(newest) })

// resolutionSpecs is the spec of records with a resolution beside a generation.
func resolutionSpecs(g *generation) {
	javas, k := g.javas, func(name string) keys { return keysOf(name).by(g.javas[0], g.gos[0]) }

	It("are records like any other to Java", func(ctx SpecContext) {
		name := redistest.Name(GinkgoT())
		c := rratelimiter.New(server.Client(GinkgoT()),
			rratelimiter.WithResolution(50*time.Millisecond), writing(g.beside()))
		defer c.Close()
		java, g := javas[0].limiter(name), compare.Go(c.RateLimiter(name))
		yes(java.TrySetRate(ctx, config(overall, 100, time.Second)))
		for range 30 {
			yes(g.TryAcquire(ctx, 3, 0))
		}
		records := k(name).state(ctx).records
		Expect(len(records)).To(BeNumerically("<", 10), "records of 30 grants: %v", records)
		is(10)(java.AvailablePermits(ctx))
		yes(java.TryAcquire(ctx, 10, 0))
		no(java.TryAcquire(ctx, 1, 0))
		no(g.TryAcquire(ctx, 1, 0))
		yes(java.TryAcquire(ctx, 100, 3*time.Second)) // Java drops the records, and has all permits again
		Expect(k(name).state(ctx)).To(Equal(state{"0", []int64{100}}))
		yes(g.TryAcquire(ctx, 100, 3*time.Second))
	})
}
