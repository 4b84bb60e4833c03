package compat_test

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A Redisson that drives a limiter of 10 permits into a fault, which inspect then finds by what
// is left in Redis.
var _ = Describe("What is wrong with a limiter", func() {
	type drive func(ctx context.Context, java limiter, keys []string)
	const value, permits = 1, 2
	DescribeTable("is found after Java", func(
		ctx SpecContext, interval time.Duration, do drive, fault, what string,
	) {
		name := redistest.Name(GinkgoT())
		java := javas[0].limiter(name)
		yes(java.TrySetRate(ctx, config(overall, 10, interval)))
		rdb := server.Client(GinkgoT())
		look := func() *inspect.Limiter {
			l, err := inspect.Read(ctx, rdb, name, inspect.Many)
			done(err)
			return l
		}
		Expect(look().Findings).To(BeEmpty())
		do(ctx, java, []string{name, "{" + name + "}:value", "{" + name + "}:permits"})
		l := look()
		Expect(l.Holds()).To(BeFalse(), "%+v", l)
		Expect(l.Findings).To(HaveLen(1))
		Expect(l.Findings[0].Fault).To(Equal(fault), l.Findings[0].What)
		Expect(l.Findings[0].What).To(ContainSubstring(what))
		AddReportEntry("inspect says", fault+": "+l.Findings[0].What)
		_, err := gos[0].c.RateLimiter(name).Repair(ctx)
		done(err)
		Expect(look().Findings).To(BeEmpty())
	},
		Entry("released permits", minute, func(ctx context.Context, java limiter, _ []string) {
			yes(java.TryAcquire(ctx, 5, 0))
			done(java.Release(ctx, 5))
		}, "B1", "Value and records make 15, 5 above the rate"),
		Entry("was left without its records", minute, func(ctx context.Context, java limiter, keys []string) {
			yes(java.TryAcquire(ctx, 6, 0))
			done(server.Admin().Del(ctx, keys[permits]).Err())
			_, err := java.TryAcquire(ctx, 5, 0) // as it says there
			Expect(err).To(HaveOccurred())
		}, "B2", "The value is 4 of 10, and no record"),
		Entry("released permits and asked how many are left", time.Second,
			func(ctx context.Context, java limiter, _ []string) {
				yes(java.TryAcquire(ctx, 5, 0))
				done(java.Release(ctx, 5))
				Eventually(func() (int64, error) { return java.AvailablePermits(ctx) }).
					WithTimeout(10 * time.Second).Should(BeEquivalentTo(15))
			}, "B3", "The value is 15, above the rate"),
		Entry("sent a request twice", minute, func(ctx context.Context, _ limiter, keys []string) {
			proxy := redistest.StartProxy(GinkgoT(), server.Addr)
			const client = "re-sends"
			_, err := newest.peer.Connect(ctx, client, proxy.Addr,
				javapeer.Timeout(500*time.Millisecond), javapeer.RetryAttempts(3))
			done(err)
			DeferCleanup(func(ctx SpecContext) { done(newest.peer.Disconnect(ctx, client)) })
			java := newest.peer.Limiter(client, keys[0])
			_, err = java.AvailablePermits(ctx) // the connection is there
			done(err)
			proxy.SwallowReplyTo(1, func(args []string) bool {
				return strings.HasPrefix(strings.ToLower(args[0]), "eval") && len(args) > 8
			})
			yes(java.TryAcquire(ctx, 3, 0))
			Expect(proxy.Swallowed()).To(BeEquivalentTo(1))
		}, "B4", "3 permits are in no record"),
		Entry("was left without the value", minute, func(ctx context.Context, java limiter, keys []string) {
			yes(java.TryAcquire(ctx, 6, 0))
			done(server.Admin().Del(ctx, keys[value]).Err())
		}, "B19", "records hold 6 permits"),
		Entry("was left without the value, and granted the rate again", minute,
			func(ctx context.Context, java limiter, keys []string) {
				yes(java.TryAcquire(ctx, 6, 0))
				done(server.Admin().Del(ctx, keys[value]).Err())
				time.Sleep(2 * time.Millisecond) // the next record is a newer one
				yes(java.TryAcquire(ctx, 3, 0))
			}, "B1 or B19", "Value and records make 16, 6 above the rate"),
	)
})
