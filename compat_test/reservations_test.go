package compat_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter/internal/compare"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

var _ = Describe("Reservations and debts beside Java", func() { debtSpecs(newest) })

// debtSpecs are the specs of reservations and charges of Go beside a generation.
func debtSpecs(g *generation) {
	javas, gos := g.javas, g.gos

	It("leave a debt, which Java reads, and waits for", func(ctx SpecContext) {
		name := redistest.Name(GinkgoT())
		java, l := javas[0].limiter(name), gos[0].c.RateLimiter(name)
		yes(java.TrySetRate(ctx, config(overall, 10, minute)))
		r, err := l.Charge(ctx, 13)
		done(err)
		Expect(r.Debt).To(Equal(int64(3)))
		no(java.TryAcquire(ctx, 1, 0))
		is(-3)(java.AvailablePermits(ctx))
		Expect(java.Config(ctx)).To(Equal(config(overall, 10, minute)))

		name = redistest.Name(GinkgoT())
		java, l = javas[0].limiter(name), gos[0].c.RateLimiter(name)
		interval := g.interval(500 * time.Millisecond)
		yes(java.TrySetRate(ctx, config(overall, 10, interval)))
		start := time.Now()
		_, err = l.Charge(ctx, 13)
		done(err)
		yes(java.TryAcquire(ctx, 1, 10*interval)) // and so acquire does
		Expect(time.Since(start)).To(BeNumerically(">=", interval-time.Millisecond))
	})

	if g.since(sinceRelease) {
		It("leave a debt that Java's release pays, until Go looks at the records", func(ctx SpecContext) {
			name := redistest.Name(GinkgoT())
			java, l := javas[0].limiter(name), gos[0].c.RateLimiter(name)
			yes(java.TrySetRate(ctx, config(overall, 10, minute)))
			_, err := l.Charge(ctx, 13)
			done(err)
			done(java.Release(ctx, 4))
			is(1)(java.AvailablePermits(ctx))
			Expect(keysOf(name).by(gos[0], gos[0]).state(ctx)).To(Equal(state{"1", []int64{13}}))
			yes(java.TryAcquire(ctx, 1, 0))
			no(java.TryAcquire(ctx, 1, 0))
		})
	}

	It("leave a debt that setRate forgives, and updateRate takes for none left", func(ctx SpecContext) {
		name := redistest.Name(GinkgoT())
		java, l := javas[0].limiter(name), gos[0].c.RateLimiter(name)
		yes(java.TrySetRate(ctx, config(overall, 10, minute)))
		_, err := l.Charge(ctx, 13)
		done(err)
		if g.since(sinceUpdateRate) {
			yes(java.UpdateRate(ctx, config(overall, 12, minute), true))
			// Java forgets the debt, and Go finds it in the records.
			Expect(keysOf(name).by(gos[0], gos[0]).state(ctx)).To(Equal(state{"0", []int64{13}}))
			no(java.TryAcquire(ctx, 1, 0))
		}
		done(java.SetRate(ctx, config(overall, 10, minute), false))
		yes(java.TryAcquire(ctx, 10, 0))
	})

	It("are settled next to what Java takes and gives back", func(ctx SpecContext) {
		name := redistest.Name(GinkgoT())
		java, l, k := javas[0].limiter(name), gos[0].c.RateLimiter(name), keysOf(name).by(gos[0], javas[0])
		yes(java.TrySetRate(ctx, config(overall, 20, minute)))
		less, err := l.Reserve(ctx, 7, 0)
		done(err)
		more, err := l.Reserve(ctx, 3, 0)
		done(err)
		yes(java.TryAcquire(ctx, 5, 0))
		done(less.Settle(ctx, 2))
		Expect(k.state(ctx)).To(Equal(state{"10", []int64{2, 3, 5}}))
		drift := 0 // Java leaves the records of what it gives back
		if g.since(sinceRelease) {
			done(java.Release(ctx, 1))
			drift = 1
		}
		elsewhere, err := gos[1].c.Reservation(more.ID())
		done(err)
		done(elsewhere.Settle(ctx, 16))
		done(more.Settle(ctx, 0))
		want := []string{"-3", "-2"}[drift]
		Expect(k.state(ctx)).To(Equal(state{want, []int64{2, 3, 5, 13}}))
		no(java.TryAcquire(ctx, 1, 0))
		_, err = java.TryAcquire(ctx, 21, 0)
		fails(compare.ExceedsRate, err)
	})
}
