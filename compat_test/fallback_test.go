package compat_test

import (
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/compare"
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
		yes(java.TrySetRate(ctx, config(overall, 10, minute)))
		yes(java.TryAcquire(ctx, 2, 0))
		limiter := compare.Go(g)

		granted, pause := 0, 10*time.Millisecond
		Eventually(func() error { // until it has learnt the rate in the background
			yes(limiter.TryAcquire(ctx, 1, 0))
			time.Sleep(pause)
			pause *= 2
			proxy.Down()
			proxy.Cut()
			r, err := g.Allow(ctx, 3)
			if err == nil && r.Degraded {
				granted += 1 + 3
				return nil
			}
			proxy.Up()
			Eventually(func() bool { return c.Health().Degraded }).Should(BeFalse())
			done(limiter.Release(ctx, 1))
			return errors.Join(errors.New("it has not learnt the rate"), err)
		}).WithTimeout(10 * time.Second).Should(Succeed())
		is(int64(10 - 2 - granted + 3))(java.AvailablePermits(ctx)) // those 3 are not known yet
		proxy.Up()
		Eventually(func() int64 { return c.Health().Unbooked }).WithTimeout(10 * time.Second).Should(BeZero())
		is(int64(10 - 2 - granted))(java.AvailablePermits(ctx))
		no(java.TryAcquire(ctx, int64(10-2-granted+1), 0))
		yes(java.TryAcquire(ctx, int64(10-2-granted), 0))
	})
})
