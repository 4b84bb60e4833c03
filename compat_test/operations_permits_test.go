package compat_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter/internal/compare"
)

// permitSpecs are the specs of taking permits and giving them back.
func permitSpecs(g *generation) {
	g.each("tryAcquire", func(ctx SpecContext, p pair) {
		yes(p.acts.TrySetRate(ctx, config(overall, 5, minute)))
		yes(p.acts.TryAcquire(ctx, 2, 0))
		is(3)(p.sees.AvailablePermits(ctx))
		no(p.sees.TryAcquire(ctx, 4, 0))
		yes(p.sees.TryAcquire(ctx, 3, 0))
		no(p.acts.TryAcquire(ctx, 1, 0))
		is(0)(p.acts.AvailablePermits(ctx))
		Expect(p.keys.state(ctx)).To(Equal(state{"0", []int64{2, 3}}))
	})

	interval := g.interval(700 * time.Millisecond)
	g.each("permits come back an interval after they were taken", func(ctx SpecContext, p pair) {
		yes(p.acts.TrySetRate(ctx, config(overall, 5, interval)))
		start := time.Now()
		yes(p.acts.TryAcquire(ctx, 4, 0))
		no(p.sees.TryAcquire(ctx, 2, 0))
		yes(p.sees.TryAcquire(ctx, 5, 5*time.Second))                                // waits for the 4
		Expect(time.Since(start)).To(BeNumerically(">=", interval-time.Millisecond)) // it counts in whole ms
		Expect(p.keys.state(ctx)).To(Equal(state{"0", []int64{5}}))
		done(p.acts.Acquire(ctx, 5)) // waits for the 5
		Expect(time.Since(start)).To(BeNumerically(">=", 2*interval-2*time.Millisecond))
		Expect(p.keys.state(ctx)).To(Equal(state{"0", []int64{5}}))
	})

	g.each("a timeout that passes", func(ctx SpecContext, p pair) {
		yes(p.acts.TrySetRate(ctx, config(overall, 1, minute)))
		yes(p.acts.TryAcquire(ctx, 1, 0))
		start := time.Now()
		no(p.sees.TryAcquire(ctx, 1, time.Second)) // within which Redis replies
		Expect(time.Since(start)).To(And(
			BeNumerically(">=", 990*time.Millisecond), BeNumerically("<", 5*time.Second)))
		Expect(p.keys.state(ctx)).To(Equal(state{"0", []int64{1}}))
	})

	g.each("release", func(ctx SpecContext, p pair) {
		yes(p.acts.TrySetRate(ctx, config(overall, 5, minute)))
		yes(p.acts.TryAcquire(ctx, 5, 0))
		done(p.acts.Release(ctx, 2))
		is(2)(p.sees.AvailablePermits(ctx))
		yes(p.sees.TryAcquire(ctx, 2, 0))
		no(p.sees.TryAcquire(ctx, 1, 0))
		done(p.acts.Release(ctx, 0))
		no(p.sees.TryAcquire(ctx, 1, 0))
		Expect(p.sees.Config(ctx)).To(Equal(config(overall, 5, minute)))
	}, actsSince(sinceRelease))

	g.each("errors come at the same points", func(ctx SpecContext, p pair) {
		for _, s := range []side{p.actor, p.see} {
			l := s.limiter(p.name)
			_, err := l.TryAcquire(ctx, 1, 0)
			fails(compare.NotInitialized, err)
			fails(compare.NotInitialized, l.Acquire(ctx, 1))
			_, err = l.AvailablePermits(ctx)
			fails(compare.NotInitialized, err)
			if s.has(sinceRelease) {
				fails(compare.NotInitialized, l.Release(ctx, 1))
				done(l.Release(ctx, 0))
				fails(compare.BadArgument, l.Release(ctx, -1))
			}
		}
		short := config(overall, 5, minute)
		short.KeepAlive = minute - time.Millisecond
		for _, s := range []side{p.actor, p.see} {
			l := s.limiter(p.name)
			if s.has(sinceTrySetRateKeepAlive) {
				_, err := l.TrySetRate(ctx, short)
				fails(compare.BadArgument, err)
			}
			if s.has(sinceSetRateKeepAlive) {
				fails(compare.BadArgument, l.SetRate(ctx, short, false))
			}
			if s.has(sinceUpdateRate) {
				_, err := l.UpdateRate(ctx, short, false)
				fails(compare.BadArgument, err)
			}
		}
		yes(p.acts.TrySetRate(ctx, config(overall, 5, minute)))
		for _, l := range []limiter{p.acts, p.sees} {
			_, err := l.TryAcquire(ctx, 6, 0)
			fails(compare.ExceedsRate, err)
			_, err = l.TryAcquire(ctx, 6, time.Second)
			fails(compare.ExceedsRate, err)
			fails(compare.ExceedsRate, l.Acquire(ctx, 6))
		}
		Expect(p.keys.state(ctx).records).To(BeEmpty())
		done(look.HDel(ctx, p.name, "interval").Err()) // half a limiter is none
		for _, l := range []limiter{p.acts, p.sees} {
			_, err := l.TryAcquire(ctx, 1, 0)
			fails(compare.NotInitialized, err)
		}
	})
}
