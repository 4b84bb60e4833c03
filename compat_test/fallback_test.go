package compat_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

var _ = Describe("Without Redis", func() {
	It("is booked what Go grants, and Java counts it when Redis is back", func(ctx SpecContext) {
		proxy := redistest.StartProxy(GinkgoT(), server.Addr)
		rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr})
		DeferCleanup(rdb.Close)
		c := rratelimiter.New(rdb, rratelimiter.WithFallback(rratelimiter.FallbackLocal),
			rratelimiter.WithLocalShare(1), rratelimiter.WithBudget(250*time.Millisecond))
		DeferCleanup(c.Close)
		name := redistest.Name(GinkgoT())
		java, g := javas[0].limiter(name), c.RateLimiter(name)
		done(g.SetRate(ctx, overall, 10, minute)) // so Go knows the rate
		yes(java.TryAcquire(ctx, 2, 0))
		yes(g.TryAcquire(ctx, 1, 0))

		proxy.Down()
		proxy.Cut()
		r, err := g.Allow(ctx, 3)
		done(err)
		Expect(r.Allowed && r.Degraded).To(BeTrue(), "%+v", r)
		is(7)(java.AvailablePermits(ctx)) // those 3 are not known yet
		proxy.Up()
		Eventually(func() int64 { return c.Health().Unbooked }).WithTimeout(10 * time.Second).Should(BeZero())
		is(4)(java.AvailablePermits(ctx))
		no(java.TryAcquire(ctx, 5, 0))
		yes(java.TryAcquire(ctx, 4, 0))
	})
})
