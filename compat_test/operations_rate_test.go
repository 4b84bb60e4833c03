package compat_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// rateSpecs are the specs of setting a rate.
func rateSpecs(g *generation) {
	g.each("trySetRate", func(ctx SpecContext, p pair) {
		for _, typ := range []rratelimiter.RateType{overall, perClient} {
			p = newPair(p.actor, p.see, redistest.Name(GinkgoT()))
			no(p.sees.Exists(ctx))
			yes(p.acts.TrySetRate(ctx, config(typ, 5, minute)))
			yes(p.sees.Exists(ctx))
			Expect(p.sees.Config(ctx)).To(Equal(config(typ, 5, minute)))
			no(p.sees.TrySetRate(ctx, config(typ, 9, minute)))
			no(p.acts.TrySetRate(ctx, config(typ, 9, minute)))
			fields := map[string]string{"rate": "5", "interval": "60000", "type": []string{"0", "1"}[typ]}
			if p.actor.has(sinceTrySetRateKeepAlive) {
				fields["keepAliveTime"] = "0"
			}
			Expect(look.HGetAll(ctx, p.name).Val()).To(Equal(fields))
			is(5)(p.sees.AvailablePermits(ctx))
		}
	})

	g.each("setRate", func(ctx SpecContext, p pair) {
		yes(p.sees.TrySetRate(ctx, config(overall, 5, minute)))
		yes(p.sees.TryAcquire(ctx, 5, 0))
		done(p.acts.SetRate(ctx, config(overall, 8, 2*minute), false))
		Expect(p.sees.Config(ctx)).To(Equal(config(overall, 8, 2*minute)))
		is(8)(p.sees.AvailablePermits(ctx))
		yes(p.sees.TryAcquire(ctx, 8, 0))
		no(p.acts.TryAcquire(ctx, 1, 0))
	})

	g.each("setRate that keeps the state", func(ctx SpecContext, p pair) {
		yes(p.sees.TrySetRate(ctx, config(overall, 8, minute)))
		yes(p.sees.TryAcquire(ctx, 8, 0))
		done(p.acts.SetRate(ctx, config(overall, 10, 2*minute), true))
		is(2)(p.sees.AvailablePermits(ctx))
		Expect(p.keys.state(ctx)).To(Equal(state{"2", []int64{8}}))
	}, actsSince(sinceUpdateRate))

	g.each("setRate to the other type", func(ctx SpecContext, p pair) {
		yes(p.acts.TrySetRate(ctx, config(overall, 5, minute)))
		yes(p.acts.TryAcquire(ctx, 5, 0))
		no(p.sees.TryAcquire(ctx, 1, 0))
		done(p.acts.SetRate(ctx, config(perClient, 3, minute), false))
		for _, l := range []limiter{p.acts, p.sees} {
			yes(l.TryAcquire(ctx, 3, 0))
			no(l.TryAcquire(ctx, 1, 0))
		}
		Expect(p.keys.of(p.see.ID()).state(ctx)).To(Equal(state{"0", []int64{3}}))
		Expect(p.keys.of(p.actor.ID()).state(ctx)).To(Equal(state{"0", []int64{3}}))
		done(p.acts.SetRate(ctx, config(overall, 4, minute), false))
		yes(p.sees.TryAcquire(ctx, 4, 0))
		no(p.acts.TryAcquire(ctx, 1, 0))
	})

	g.each("updateRate", func(ctx SpecContext, p pair) {
		no(p.acts.UpdateRate(ctx, config(overall, 5, minute), false))
		no(p.sees.Exists(ctx))
		yes(p.sees.TrySetRate(ctx, config(overall, 5, minute)))
		yes(p.sees.TryAcquire(ctx, 3, 0))
		yes(p.acts.UpdateRate(ctx, config(overall, 7, minute), true))
		is(4)(p.sees.AvailablePermits(ctx))
		yes(p.acts.UpdateRate(ctx, config(overall, 6, minute), false))
		is(6)(p.sees.AvailablePermits(ctx))
		Expect(p.sees.Config(ctx)).To(Equal(config(overall, 6, minute)))
	}, actsSince(sinceUpdateRate))

	g.each("keep alive", func(ctx SpecContext, p pair) {
		c := config(overall, 5, time.Second)
		c.KeepAlive = minute
		yes(p.acts.TrySetRate(ctx, c))
		Expect(look.PTTL(ctx, p.name).Val()).To(BeNumerically("~", minute, 5*time.Second))
		yes(p.sees.TryAcquire(ctx, 1, 0))
		for _, key := range []string{p.keys.hash, p.keys.value, p.keys.permits} {
			done(look.PExpire(ctx, key, 30*time.Second).Err())
		}
		yes(p.sees.TryAcquire(ctx, 1, 0)) // a use prolongs it
		for _, key := range []string{p.keys.hash, p.keys.value, p.keys.permits} {
			Expect(look.PTTL(ctx, key).Val()).To(BeNumerically("~", minute, 5*time.Second), key)
		}
	}, actsSince(sinceTrySetRateKeepAlive), seesSince(sinceTrySetRateKeepAlive))
}
