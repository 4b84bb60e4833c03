package compat_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/compare"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// keySpecs are the specs of the keys of a limiter and their time to live.
func keySpecs(g *generation) {
	g.each("delete", func(ctx SpecContext, p pair) {
		for _, typ := range []rratelimiter.RateType{overall, perClient} {
			p = newPair(p.actor, p.see, redistest.Name(GinkgoT()))
			yes(p.sees.TrySetRate(ctx, config(typ, 5, minute)))
			yes(p.acts.TryAcquire(ctx, 5, 0))
			yes(p.acts.Delete(ctx))
			no(p.acts.Delete(ctx))
			no(p.sees.Exists(ctx))
			_, err := p.sees.TryAcquire(ctx, 1, 0)
			fails(compare.NotInitialized, err)
			Expect(look.Keys(ctx, "*"+p.name+"*").Val()).To(BeEmpty())
			yes(p.sees.TrySetRate(ctx, config(typ, 2, minute)))
			yes(p.acts.TryAcquire(ctx, 2, 0))
		}
	})

	g.each("the time to live", func(ctx SpecContext, p pair) {
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
		yes(p.sees.TryAcquire(ctx, 1, 0)) // a use keeps it
		lives(ctx, p, 5*time.Hour)
		yes(p.acts.ClearExpire(ctx))
		is(-1)(p.sees.TimeToLive(ctx))
		yes(p.acts.ExpireAt(ctx, time.Now().Add(-time.Second)))
		is(-2)(p.sees.TimeToLive(ctx))
		no(p.acts.Expire(ctx, time.Hour))
		Expect(look.Keys(ctx, "*"+p.name+"*").Val()).To(BeEmpty())
	})

	g.each("the time to live, on a condition", func(ctx SpecContext, p pair) {
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

	g.each("rename", func(ctx SpecContext, p pair) {
		yes(p.acts.TrySetRate(ctx, config(overall, 5, minute)))
		yes(p.acts.TryAcquire(ctx, 3, 0))
		newName := redistest.Name(GinkgoT())
		done(p.acts.Rename(ctx, newName))
		no(p.sees.Exists(ctx))
		renamed := newPair(p.actor, p.see, newName)
		Expect(renamed.sees.Config(ctx)).To(Equal(config(overall, 5, minute)))
		if p.actor.String() == "Java" {
			is(5)(renamed.sees.AvailablePermits(ctx)) // Redisson renames only the hash (B10)
			return
		}
		is(2)(renamed.sees.AvailablePermits(ctx))
		is(2)(p.acts.AvailablePermits(ctx)) // the object has the new name
		Expect(look.Keys(ctx, "*"+p.name+"*").Val()).To(BeEmpty())
	})
}

// lives expects a time to live: as the other side sees it, and on all keys.
func lives(ctx SpecContext, p pair, want time.Duration) {
	GinkgoHelper()
	ms, err := p.sees.TimeToLive(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(time.Duration(ms) * time.Millisecond).To(BeNumerically("~", want, 10*time.Second))
	for _, key := range []string{p.keys.hash, p.keys.value, p.keys.permits} {
		Expect(look.PTTL(ctx, key).Val()).To(BeNumerically("~", want, 10*time.Second), key)
	}
}
