package compat_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// What Go makes of limiters, Java sees as ordinary ones.
var _ = Describe("Limits beside Java", func() {
	var c *rratelimiter.Client
	BeforeEach(func() {
		c = rratelimiter.New(server.Client(GinkgoT()))
		DeferCleanup(c.Close)
	})

	It("are those of a template, whose rate the first acquire of Go sets", func(ctx SpecContext) {
		users := c.Template(redistest.Name(GinkgoT()), 5, minute)
		user := users.RateLimiter("42")
		java := javas[0].limiter(user.Name())
		done(users.Acquire(ctx, "42", 2))
		Expect(java.Config(ctx)).To(Equal(config(overall, 5, minute)))
		is(3)(java.AvailablePermits(ctx))
		yes(java.TryAcquire(ctx, 3, 0))
		no(users.TryAcquire(ctx, "42", 1, 0))
		done(java.Release(ctx, 1))
		yes(users.TryAcquire(ctx, "42", 1, 0))
		no(java.TryAcquire(ctx, 1, 0))
	})

	It("are those of a template that Java has set before, and updated if it says so", func(ctx SpecContext) {
		name := redistest.Name(GinkgoT())
		user := c.Template(name, 9, minute).RateLimiter("42")
		java := javas[0].limiter(user.Name())
		yes(java.TrySetRate(ctx, config(overall, 4, minute)))
		yes(java.TryAcquire(ctx, 3, 0))
		yes(user.TryAcquire(ctx, 1, 0))
		no(user.TryAcquire(ctx, 1, 0))
		updates := c.Template(name, 9, minute, rratelimiter.WithUpdate())
		yes(updates.TryAcquire(ctx, "42", 1, 0))
		is(4)(java.AvailablePermits(ctx))
		Expect(java.Config(ctx)).To(HaveField("Rate", int64(9)))
	})

	It("are taken together, from all or from none", func(ctx SpecContext) {
		one, two := c.RateLimiter(redistest.Name(GinkgoT())), c.RateLimiter(redistest.Name(GinkgoT()))
		javaOne, javaTwo := javas[0].limiter(one.Name()), javas[0].limiter(two.Name())
		yes(javaOne.TrySetRate(ctx, config(overall, 5, minute)))
		yes(javaTwo.TrySetRate(ctx, config(overall, 20, minute)))
		both := c.All(one, two).Amounts(1, 4)
		yes(both.TryAcquire(ctx, 2, 0))
		is(3)(javaOne.AvailablePermits(ctx))
		is(12)(javaTwo.AvailablePermits(ctx))
		yes(javaOne.TryAcquire(ctx, 2, 0))
		no(both.TryAcquire(ctx, 2, 0))
		is(1)(javaOne.AvailablePermits(ctx))
		is(12)(javaTwo.AvailablePermits(ctx))
		done(javaOne.Release(ctx, 2))
		start := time.Now()
		yes(both.TryAcquire(ctx, 3, 10*time.Second))
		Expect(time.Since(start)).To(BeNumerically("<", 5*time.Second))
		no(javaOne.TryAcquire(ctx, 1, 0))
		no(javaTwo.TryAcquire(ctx, 1, 0))
	})
})
