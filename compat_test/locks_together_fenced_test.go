package compat_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
)

// tokenTogetherSpecs are about a fenced lock that Go and Java share.
func (s *lockSubject) tokenTogetherSpecs() {
	It("count the grants of both languages", func(ctx SpecContext) {
		a, _, _ := s.holders(ctx, javapeer.Fenced)
		g := s.goHolder(javapeer.Fenced)
		is(0)(g.lastToken(ctx))
		var want int64
		for _, r := range []rival{g, a, a, g, g, a} {
			for range 2 { // each hold of one's own lock draws a token as well
				want++
				Expect(r.takesToken(ctx)).To(Equal(want), "the token of %v", r)
			}
			for range 2 {
				r.unlocks(ctx)
			}
			is(want)(g.lastToken(ctx))
			is(want)(a.lastToken(ctx))
		}
		Expect(look.Get(ctx, s.keys.token).Val()).To(Equal("12"))
		is(-1)(look.Do(ctx, "PTTL", s.keys.token).Int64())
	})

	It("give a token to who was woken by the other language", func(ctx SpecContext) {
		a, _, _ := s.holders(ctx, javapeer.Fenced)
		g := s.goHolder(javapeer.Fenced)
		Expect(g.takesToken(ctx)).To(Equal(int64(1)))
		waits := a.StartLockAndGetToken(a.thread)
		listens(ctx, s.keys.channel, 1)
		g.unlocks(ctx)
		is(2)(s.woken(ctx, waits))

		gets := g.waits(ctx, endless)
		listens(ctx, s.keys.channel, 1)
		next := &goHolder{goLock: g.goLock} // to which g hands it on
		a.unlocks(ctx)
		gets()
		getsNext := next.waits(ctx, endless)
		listens(ctx, s.keys.channel, 1)
		Expect(g.hold.Token()).To(Equal(int64(3)))
		g.unlocks(ctx)
		getsNext()
		Expect(next.hold.Token()).To(Equal(int64(4)))
		is(4)(a.lastToken(ctx))
		Expect(a.TryLockAndGetToken(ctx, a.thread, 0)).To(BeNil())
		next.unlocks(ctx)
	}, SpecTimeout(time.Minute))

	It("are refused to Go where the hash has no time to live, and given to Java", func(ctx SpecContext) {
		a, b, _ := s.holders(ctx, javapeer.Fenced)
		g := s.goHolder(javapeer.Fenced)
		a.locks(ctx) // for an hour: the watchdog would set a time to live
		yes(look.Persist(ctx, s.name).Result())
		no(g.tries(ctx, 0))
		no(g.tries(ctx, 30*time.Millisecond))
		is(-1)(g.remains(ctx))
		s.held(ctx, a, 1)
		Expect(b.takesToken(ctx)).To(Equal(int64(-1))) // it believes that it holds the lock
		s.held(ctx, a, 1)
		is(1)(g.lastToken(ctx))

		gets := g.waits(ctx, endless)
		listens(ctx, s.keys.channel, 1)
		a.unlocks(ctx)
		gets()
		Expect(g.hold.Token()).To(Equal(int64(2)))
		b.hasLost(ctx)
		g.unlocks(ctx)
	}, SpecTimeout(time.Minute))
}
