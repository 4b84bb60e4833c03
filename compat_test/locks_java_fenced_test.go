package compat_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
)

// woken returns the token of a thread that waits for it, and has just begun to: then
// Redisson may not hear of the unlock (with 3.26.0 3 times of 400), and is told once more.
func (s *lockSubject) woken(ctx context.Context, waits *javapeer.Started[int64]) (token int64, err error) {
	GinkgoHelper()
	for {
		soon, cancel := context.WithTimeout(ctx, time.Second)
		token, err = waits.Wait(soon)
		cancel()
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return token, err
		}
		done(look.Publish(ctx, s.keys.channel, "0").Err())
	}
}

// tokenSpecs are about the tokens of a fenced lock.
func (s *lockSubject) tokenSpecs() {
	It("count their grants in a string", func(ctx SpecContext) {
		a, b, _ := s.holders(ctx, javapeer.Fenced)
		is(0)(a.Token(ctx))
		is(0)(look.Exists(ctx, s.keys.token).Result())
		is(1)(a.LockAndGetToken(ctx, a.thread))
		Expect(look.Get(ctx, s.keys.token).Val()).To(Equal("1"))
		is(-1)(look.Do(ctx, "PTTL", s.keys.token).Int64())
		a.locks(ctx) // each method draws one
		yes(a.TryLock(ctx, a.thread))
		Expect(a.TryLockAndGetTokenLease(ctx, a.thread, 0, time.Hour)).To(HaveValue(Equal(int64(4))))
		Expect(b.TryLockAndGetToken(ctx, b.thread, 0)).To(BeNil())
		no(b.TryLock(ctx, b.thread))
		is(4)(b.Token(ctx)) // the last one, whoever has it
		a.unlocks(ctx)
		yes(b.ForceUnlock(ctx))
		Expect(look.Get(ctx, s.keys.token).Val()).To(Equal("4"))
		is(5)(b.LockAndGetToken(ctx, b.thread))
		yes(a.Delete(ctx))
		is(0)(look.Exists(ctx, s.keys.hash, s.keys.token).Result())
		is(1)(a.LockAndGetToken(ctx, a.thread)) // the count begins again
		a.unlocks(ctx)
	})

	It("exclude plain ones, which draw no token", func(ctx SpecContext) {
		plain, _, _ := s.holders(ctx, javapeer.Reentrant)
		_, b, _ := s.holders(ctx, javapeer.Fenced)
		plain.locks(ctx)
		is(0)(look.Exists(ctx, s.keys.token).Result())
		waits := b.StartLockAndGetToken(b.thread)
		listens(ctx, s.keys.channel, 1)
		plain.unlocks(ctx)
		is(1)(s.woken(ctx, waits))
		no(plain.TryLock(ctx, plain.thread))
		b.unlocks(ctx)
	})

	It("ignore the lease where a token is asked for", func(ctx SpecContext) {
		a, _, _ := s.holders(ctx, javapeer.Fenced)
		is(1)(a.LockAndGetTokenLease(ctx, a.thread, time.Hour))
		s.expires(ctx, 30*time.Second)
		a.unlocks(ctx)
	})

	It("are taken for free, where the hash has no time to live", func(ctx SpecContext) {
		a, _, _ := s.holders(ctx, javapeer.Fenced)
		done(look.HSet(ctx, s.name, "somebody:1", 1).Err())
		no(a.TryLock(ctx, a.thread))
		is(-1)(a.LockAndGetToken(ctx, a.thread))
		Expect(look.HGetAll(ctx, s.name).Val()).To(Equal(map[string]string{"somebody:1": "1"}))
		is(0)(look.Exists(ctx, s.keys.token).Result())
	})

	It("fail where the token is no number, and take nothing", func(ctx SpecContext) {
		a, _, _ := s.holders(ctx, javapeer.Fenced)
		done(look.Set(ctx, s.keys.token, "x", time.Minute).Err())
		_, err := a.LockAndGetToken(ctx, a.thread)
		Expect(err).To(MatchError(ContainSubstring("not an integer")))
		is(0)(look.Exists(ctx, s.name).Result())
	})
}
