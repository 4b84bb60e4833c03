package compat_test

import (
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/grants"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

var _ = Describe("Leases of Go beside Java", func() {
	leases := rratelimiter.WithLease(rratelimiter.LeaseOptions{Max: time.Second})

	It("are permits that are taken, until they are given back", func(ctx SpecContext) {
		c := rratelimiter.New(server.Client(GinkgoT()), leases)
		DeferCleanup(c.Close)
		name := redistest.Name(GinkgoT())
		java, l := javas[0].limiter(name), c.RateLimiter(name)
		yes(java.TrySetRate(ctx, config(overall, 10000, minute)))
		taken, left := int64(0), int64(10000)
		for ; left >= 10000-taken; taken++ { // until a lease has taken more than was used
			yes(l.TryAcquire(ctx, 1, 0))
			var err error
			left, err = java.AvailablePermits(ctx)
			done(err)
		}
		yes(java.TryAcquire(ctx, 5000, 0))
		done(c.Close())
		is(5000 - taken)(java.AvailablePermits(ctx))
		yes(java.TryAcquire(ctx, 5000-taken, 0))
		no(java.TryAcquire(ctx, 1, 0))
	})

	It("never bring more than the rate in any interval", func(ctx SpecContext) {
		const rate, interval, duration = 400, time.Second, 5 * time.Second
		name := redistest.Name(GinkgoT())
		yes(gos[0].limiter(name).TrySetRate(ctx, config(overall, rate, interval)))
		var log grants.Log
		var group sync.WaitGroup
		group.Go(func() { newest.javaHammers(ctx, name, 2, duration, &log) })
		rdb := server.Client(GinkgoT())
		trips := redistest.RoundTrips(rdb)
		c := rratelimiter.New(rdb, leases)
		DeferCleanup(c.Close)
		byGo := int64(0)
		group.Go(func() {
			defer GinkgoRecover()
			l := c.RateLimiter(name)
			for end := time.Now().Add(duration); time.Now().Before(end); {
				from := time.Now()
				ok, err := l.TryAcquire(ctx, 1, 0)
				done(err)
				if !ok { // none is leased for a second after a refusal
					time.Sleep(interval + 100*time.Millisecond)
					continue
				}
				byGo++
				log.Add(grants.Entry{Process: "Go", Start: from, End: time.Now(), Permits: 1})
			}
		})
		group.Wait()
		done(grants.Limit{Rate: rate, Interval: interval}.Check(&log))
		Expect(trips.Load()).To(BeNumerically("<", byGo), "round trips of Go, whose leases saved some")
	}, SpecTimeout(time.Minute))
})
