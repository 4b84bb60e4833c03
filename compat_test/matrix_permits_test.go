package compat_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// permitSpecs are about permits and the value string.
func (s *subject) permitSpecs() {
	s.fact("3.22.1", "setRate clears its own pair of a PER_CLIENT limit",
		"setRate to PER_CLIENT clears the pair of all instead of its own",
		func(ctx SpecContext) {
			yes(s.java.TrySetRate(ctx, config(overall, 3, minute)))
			yes(s.java.TryAcquire(ctx, 3, 0))
			done(s.java.SetRate(ctx, config(perClient, 3, minute), false))
			shared := int64(2) // keys that stay behind
			if s.before("3.22.1") {
				shared = 0
			}
			is(shared)(look.Exists(ctx, s.keys.value, s.keys.permits).Result())
			yes(s.java.TryAcquire(ctx, 3, 0))
			yes(s.goes.TryAcquire(ctx, 3, 0))
			done(s.java.SetRate(ctx, config(perClient, 5, minute), false))
			left := int64(5)
			if s.before("3.22.1") {
				left = 0 // until its records expire
			}
			is(left)(s.java.AvailablePermits(ctx))
			is(2)(s.goes.AvailablePermits(ctx)) // Go keeps its records, and has the new rate at once
		})

	It("the value where more comes back than fits", func(ctx SpecContext) {
		yes(s.java.TrySetRate(ctx, config(overall, 5, minute)))
		overfull := func() {
			done(look.Del(ctx, s.keys.value, s.keys.permits).Err())
			leave(ctx, s.keys, leftover{s.beside(), "5", minute + time.Second, 1})
			leave(ctx, s.keys, leftover{s.beside(), "5", 0, 4})
		}
		overfull()
		yes(s.java.TryAcquire(ctx, 1, 0))
		left := "0" // 5 less the 4 that are outstanding, less 1
		switch {
		case s.before("3.16.2"):
			left = "5" // 5 and 1 that comes back, less 1: 4 + 5 of 5
		case s.before("3.35.0"):
			left = "3" // 5 less one record, whatever it holds, less 1: 4 + 4 of 5
		}
		Expect(look.Get(ctx, s.keys.value).Val()).To(Equal(left))
		overfull()
		yes(s.goes.TryAcquire(ctx, 1, 0))
		no(s.goes.TryAcquire(ctx, 1, 0))
		no(s.java.TryAcquire(ctx, 1, 0))
		Expect(s.keys.state(ctx)).To(Equal(state{"0", []int64{1, 4}}))
	})
}
