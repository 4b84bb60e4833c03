package compat_test

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit/rules"
)

// What Go makes of limiters, Java sees as ordinary ones.
var _ = Describe("Limits beside Java", func() {
	var c *rratelimiter.Client
	BeforeEach(func() {
		c = rratelimiter.New(server.Client(GinkgoT()))
		DeferCleanup(c.Close)
	})

	It("are those of a Keyed, whose rate the first acquire of Go sets", func(ctx SpecContext) {
		users := c.Keyed(redistest.Name(GinkgoT()), 5, minute)
		user := users.For("42")
		java := javas[0].limiter(user.Name())
		done(users.For("42").Acquire(ctx, 2))
		Expect(java.Config(ctx)).To(Equal(config(overall, 5, minute)))
		is(3)(java.AvailablePermits(ctx))
		yes(java.TryAcquire(ctx, 3, 0))
		no(users.For("42").TryAcquire(ctx, 1, 0))
		done(java.Release(ctx, 1))
		yes(users.For("42").TryAcquire(ctx, 1, 0))
		no(java.TryAcquire(ctx, 1, 0))
	})

	It("are those of a Keyed, which keeps or replaces the rate that Java has set", func(ctx SpecContext) {
		name := redistest.Name(GinkgoT())
		user := c.Keyed(name, 9, minute, rratelimiter.WithKeepRate()).For("42")
		java := javas[0].limiter(user.Name())
		yes(java.TrySetRate(ctx, config(overall, 4, minute)))
		yes(java.TryAcquire(ctx, 3, 0))
		yes(user.TryAcquire(ctx, 1, 0))
		no(user.TryAcquire(ctx, 1, 0))
		replaces := c.Keyed(name, 9, minute)
		yes(replaces.For("42").TryAcquire(ctx, 1, 0))
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

	It("are those of a group with a member for each client", func(ctx SpecContext) {
		one, each := c.RateLimiter(redistest.Name(GinkgoT())), c.RateLimiter(redistest.Name(GinkgoT()))
		javaOne, javaEach := javas[0].limiter(one.Name()), javas[0].limiter(each.Name())
		yes(javaOne.TrySetRate(ctx, config(overall, 9, minute)))
		yes(javaEach.TrySetRate(ctx, config(perClient, 4, minute)))
		both := c.All(one, each)
		done(both.Acquire(ctx, 4))
		yes(javaEach.TryAcquire(ctx, 4, 0)) // a part of its own
		no(both.TryAcquire(ctx, 1, 0))
		done(both.Release(ctx, 2))
		yes(both.TryAcquire(ctx, 2, 0))
		is(5)(javaOne.AvailablePermits(ctx))
		is(0)(javaEach.AvailablePermits(ctx))
	})

	It("are those of a file of rules, by every algorithm", func(ctx SpecContext) {
		algorithms := strings.Fields(
			"rratelimiter sliding-log sliding-counter fixed-window token-bucket leaky-bucket")
		text := "rules:\n"
		for _, algorithm := range algorithms {
			const rule = "- {name: %[1]s, match: {route: /%[1]s}, limits: [{rate: 3/1h, algorithm: %[1]s}]}\n"
			text += fmt.Sprintf(rule, algorithm)
		}
		text += "- {name: running, match: {route: /running}, " +
			"limits: [{algorithm: concurrency, most: 2, lease: 1m}]}\n"
		set, err := rules.Parse([]byte(text))
		done(err)
		name := redistest.Name(GinkgoT())
		limits, err := rules.New(rules.OnRedis(c, server.Client(GinkgoT()), name), set)
		done(err)
		takes := func(route string, permits int64) rules.Grant {
			GinkgoHelper()
			grant, err := limits.Allow(ctx, rules.Call{Path: "/" + route}, permits)
			done(err)
			return grant
		}
		for _, rule := range algorithms {
			Expect(takes(rule, 2).Remaining).To(BeEquivalentTo(1), rule)
			Expect(takes(rule, 2).Allowed).To(BeFalse(), rule)
			Expect(takes(rule, 1).Allowed).To(BeTrue(), rule)
		}
		java := javas[0].limiter(name + ":rratelimiter:{all}")
		is(0)(java.AvailablePermits(ctx))
		done(java.Release(ctx, 1))
		Expect(takes("rratelimiter", 1).Allowed).To(BeTrue())

		first := takes("running", 2)
		Expect(takes("running", 1).Allowed).To(BeFalse())
		done(first.Done(ctx))
		Expect(takes("running", 1).Allowed).To(BeTrue())
	})
})
