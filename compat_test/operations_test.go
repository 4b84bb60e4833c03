package compat_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

const (
	overall   = rratelimiter.Overall
	perClient = rratelimiter.PerClient
	minute    = time.Minute
)

func config(typ rratelimiter.RateType, rate int64, interval time.Duration) rratelimiter.Config {
	return rratelimiter.Config{Type: typ, Rate: rate, Interval: interval}
}

var _ = Describe("What one side does, the other obeys", func() { operationSpecs(newest) })

// operationSpecs are the specs of each operation beside a generation: one side does
// it, the other sees and obeys it.
func operationSpecs(g *generation) {
	each := func(text string, spec func(ctx SpecContext, p pair), needs ...need) {
		DescribeTable(text, func(ctx SpecContext, actor, see side) {
			spec(ctx, newPair(actor, see, redistest.Name(GinkgoT())))
		}, g.directions(needs...))
	}

	each("trySetRate", func(ctx SpecContext, p pair) {
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

	each("tryAcquire", func(ctx SpecContext, p pair) {
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
	each("permits come back an interval after they were taken", func(ctx SpecContext, p pair) {
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

	each("a timeout that passes", func(ctx SpecContext, p pair) {
		yes(p.acts.TrySetRate(ctx, config(overall, 1, minute)))
		yes(p.acts.TryAcquire(ctx, 1, 0))
		start := time.Now()
		no(p.sees.TryAcquire(ctx, 1, 100*time.Millisecond))
		Expect(time.Since(start)).To(And(BeNumerically(">=", 90*time.Millisecond), BeNumerically("<", 5*time.Second)))
		Expect(p.keys.state(ctx)).To(Equal(state{"0", []int64{1}}))
	})

	each("release", func(ctx SpecContext, p pair) {
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

	each("setRate", func(ctx SpecContext, p pair) {
		yes(p.sees.TrySetRate(ctx, config(overall, 5, minute)))
		yes(p.sees.TryAcquire(ctx, 5, 0))
		done(p.acts.SetRate(ctx, config(overall, 8, 2*minute), false))
		Expect(p.sees.Config(ctx)).To(Equal(config(overall, 8, 2*minute)))
		is(8)(p.sees.AvailablePermits(ctx))
		yes(p.sees.TryAcquire(ctx, 8, 0))
		no(p.acts.TryAcquire(ctx, 1, 0))
	})

	each("setRate that keeps the state", func(ctx SpecContext, p pair) {
		yes(p.sees.TrySetRate(ctx, config(overall, 8, minute)))
		yes(p.sees.TryAcquire(ctx, 8, 0))
		done(p.acts.SetRate(ctx, config(overall, 10, 2*minute), true))
		is(2)(p.sees.AvailablePermits(ctx))
		Expect(p.keys.state(ctx)).To(Equal(state{"2", []int64{8}}))
	}, actsSince(sinceUpdateRate))

	each("setRate to the other type", func(ctx SpecContext, p pair) {
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

	each("updateRate", func(ctx SpecContext, p pair) {
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

	each("keep alive", func(ctx SpecContext, p pair) {
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

	each("delete", func(ctx SpecContext, p pair) {
		for _, typ := range []rratelimiter.RateType{overall, perClient} {
			p = newPair(p.actor, p.see, redistest.Name(GinkgoT()))
			yes(p.sees.TrySetRate(ctx, config(typ, 5, minute)))
			yes(p.acts.TryAcquire(ctx, 5, 0))
			yes(p.acts.Delete(ctx))
			no(p.acts.Delete(ctx))
			no(p.sees.Exists(ctx))
			_, err := p.sees.TryAcquire(ctx, 1, 0)
			Expect(kind(err)).To(Equal("not initialized"))
			Expect(look.Keys(ctx, "*"+p.name+"*").Val()).To(BeEmpty())
			yes(p.sees.TrySetRate(ctx, config(typ, 2, minute)))
			yes(p.acts.TryAcquire(ctx, 2, 0))
		}
	})

	each("the time to live", func(ctx SpecContext, p pair) {
		yes(p.acts.TrySetRate(ctx, config(overall, 5, minute)))
		yes(p.acts.TryAcquire(ctx, 1, 0))
		is(-1)(p.sees.TimeToLive(ctx))
		no(p.acts.ClearExpire(ctx))
		yes(p.acts.Expire(ctx, 4*time.Hour))
		lives(ctx, p, 4*time.Hour)
		at := time.Now().Add(5 * time.Hour).Truncate(time.Millisecond)
		yes(p.acts.ExpireAt(ctx, at))
		lives(ctx, p, 5*time.Hour)
		if p.see.has(sinceExpireIf) {
			endsAt(ctx, p, at)
		}
		yes(p.sees.TryAcquire(ctx, 1, 0)) // keeps it
		lives(ctx, p, 5*time.Hour)
		yes(p.acts.ClearExpire(ctx))
		is(-1)(p.sees.TimeToLive(ctx))
		yes(p.acts.ExpireAt(ctx, time.Now().Add(-time.Second)))
		is(-2)(p.sees.TimeToLive(ctx))
		no(p.acts.Expire(ctx, time.Hour))
		Expect(look.Keys(ctx, "*"+p.name+"*").Val()).To(BeEmpty())
	})

	each("the time to live, on a condition", func(ctx SpecContext, p pair) {
		yes(p.acts.TrySetRate(ctx, config(overall, 5, minute)))
		yes(p.acts.TryAcquire(ctx, 1, 0))
		cond := conditional(ctx, p)
		no(cond.ExpireIfSet(ctx, time.Hour))
		yes(cond.ExpireIfNotSet(ctx, time.Hour))
		lives(ctx, p, time.Hour)
		no(cond.ExpireIfNotSet(ctx, 2*time.Hour))
		no(cond.ExpireIfGreater(ctx, minute))
		yes(cond.ExpireIfGreater(ctx, 2*time.Hour))
		lives(ctx, p, 2*time.Hour)
		no(cond.ExpireIfLess(ctx, 3*time.Hour))
		yes(cond.ExpireIfLess(ctx, time.Hour))
		lives(ctx, p, time.Hour)
		yes(cond.ExpireIfSet(ctx, 3*time.Hour))
		lives(ctx, p, 3*time.Hour)
	}, actsSince(sinceExpireIf))

	each("rename", func(ctx SpecContext, p pair) {
		yes(p.acts.TrySetRate(ctx, config(overall, 5, minute)))
		yes(p.acts.TryAcquire(ctx, 3, 0))
		newName := redistest.Name(GinkgoT())
		done(p.acts.Rename(ctx, newName))
		no(p.sees.Exists(ctx))
		renamed := newPair(p.actor, p.see, newName)
		Expect(renamed.sees.Config(ctx)).To(Equal(config(overall, 5, minute)))
		if p.actor.String() == "Java" {
			is(5)(renamed.sees.AvailablePermits(ctx)) // Redisson renames the hash alone (B10)
			return
		}
		is(2)(renamed.sees.AvailablePermits(ctx))
		is(2)(p.acts.AvailablePermits(ctx)) // the object goes with it
		Expect(look.Keys(ctx, "*"+p.name+"*").Val()).To(BeEmpty())
	})

	each("errors come at the same points", func(ctx SpecContext, p pair) {
		for _, s := range []side{p.actor, p.see} {
			l := s.limiter(p.name)
			_, err := l.TryAcquire(ctx, 1, 0)
			Expect(kind(err)).To(Equal("not initialized"))
			Expect(kind(l.Acquire(ctx, 1))).To(Equal("not initialized"))
			_, err = l.AvailablePermits(ctx)
			Expect(kind(err)).To(Equal("not initialized"))
			if s.has(sinceRelease) {
				Expect(kind(l.Release(ctx, 1))).To(Equal("not initialized"))
				done(l.Release(ctx, 0))
				Expect(kind(l.Release(ctx, -1))).To(Equal("bad argument"))
			}
		}
		short := config(overall, 5, minute)
		short.KeepAlive = minute - time.Millisecond
		for _, s := range []side{p.actor, p.see} {
			l := s.limiter(p.name)
			if s.has(sinceTrySetRateKeepAlive) {
				_, err := l.TrySetRate(ctx, short)
				Expect(kind(err)).To(Equal("bad argument"))
			}
			if s.has(sinceSetRateKeepAlive) {
				Expect(kind(l.SetRate(ctx, short, false))).To(Equal("bad argument"))
			}
			if s.has(sinceUpdateRate) {
				_, err := l.UpdateRate(ctx, short, false)
				Expect(kind(err)).To(Equal("bad argument"))
			}
		}
		yes(p.acts.TrySetRate(ctx, config(overall, 5, minute)))
		for _, l := range []limiter{p.acts, p.sees} {
			_, err := l.TryAcquire(ctx, 6, 0)
			Expect(kind(err)).To(Equal("exceeds the rate"))
			_, err = l.TryAcquire(ctx, 6, time.Second)
			Expect(kind(err)).To(Equal("exceeds the rate"))
			Expect(kind(l.Acquire(ctx, 6))).To(Equal("exceeds the rate"))
		}
		Expect(p.keys.state(ctx).records).To(BeEmpty())
		done(look.HDel(ctx, p.name, "interval").Err()) // half a limiter is none
		for _, l := range []limiter{p.acts, p.sees} {
			_, err := l.TryAcquire(ctx, 1, 0)
			Expect(kind(err)).To(Equal("not initialized"))
		}
	})
}

// lives expects a time to live, as the other side sees it and on all keys.
func lives(ctx SpecContext, p pair, want time.Duration) {
	GinkgoHelper()
	ms, err := p.sees.TimeToLive(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(time.Duration(ms) * time.Millisecond).To(BeNumerically("~", want, 10*time.Second))
	for _, key := range []string{p.keys.hash, p.keys.value, p.keys.permits} {
		Expect(look.PTTL(ctx, key).Val()).To(BeNumerically("~", want, 10*time.Second), key)
	}
}
