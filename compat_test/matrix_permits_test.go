package compat_test

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter"
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

// methodSpecs are about results, errors, and methods that a generation lacks.
func (s *subject) methodSpecs() {
	It("the text of the error for more permits than the rate", func(ctx SpecContext) {
		yes(s.java.TrySetRate(ctx, config(overall, 5, minute)))
		_, err := s.java.TryAcquire(ctx, 6, 0)
		text := "Requested permits amount cannot exceed defined rate"
		if s.before("3.35.0") {
			text = "Requested permits amount could not exceed defined rate"
		}
		said, _, _ := strings.Cut(err.Error(), ". channel:")
		Expect(said).To(ContainSubstring(text))
	})

	s.fact("3.18.0", "getConfig of no limiter is 0 permits per 0 ms",
		"getConfig of no limiter is an exception",
		func(ctx SpecContext) {
			c, err := s.java.Config(ctx)
			if s.since("3.18.0") {
				Expect(c, err).To(Equal(rratelimiter.Config{}))
			} else {
				Expect(err).To(MatchError(ContainSubstring("Unexpected exception while processing command")))
			}
			_, err = s.goes.Config(ctx)
			Expect(err).To(MatchError(rratelimiter.ErrNotInitialized))
		})

	s.fact("3.37.0", "of the timeouts below zero -1 ms alone is for ever",
		"a timeout below zero is for ever",
		func(ctx SpecContext) {
			forever := []time.Duration{-time.Millisecond}
			if s.before("3.37.0") {
				forever = append(forever, -2*time.Millisecond, -time.Second)
			} else {
				yes(s.java.TrySetRate(ctx, config(overall, 1, minute)))
				yes(s.java.TryAcquire(ctx, 1, 0))
				no(s.java.TryAcquire(ctx, 1, -2*time.Millisecond))
				no(s.java.TryAcquire(ctx, 1, -time.Second))
			}
			done(s.java.SetRate(ctx, config(overall, 1, 200*time.Millisecond), false))
			yes(s.java.TryAcquire(ctx, 1, 0))
			for _, timeout := range forever {
				yes(s.java.TryAcquire(ctx, 1, timeout))
			}
		})

	lacks := func(since, method string, call func(ctx context.Context) error) {
		s.fact(since, "has "+method, "has no "+method, func(ctx SpecContext) {
			yes(s.java.TrySetRate(ctx, config(overall, 5, minute)))
			if err := call(ctx); s.before(since) {
				Expect(err).To(lacking(method))
			} else {
				done(err)
			}
		})
	}
	for name, expire := range map[string]func(limiter, context.Context, time.Duration) (bool, error){
		"expireIfSet":     limiter.ExpireIfSet,
		"expireIfNotSet":  limiter.ExpireIfNotSet,
		"expireIfGreater": limiter.ExpireIfGreater,
		"expireIfLess":    limiter.ExpireIfLess,
	} {
		lacks("3.17.0", name+"(Duration)", func(ctx context.Context) error {
			_, err := expire(s.java, ctx, minute)
			return err
		})
	}
	lacks("3.17.0", "getExpireTime()", func(ctx context.Context) error {
		_, err := s.java.ExpireTime(ctx)
		return err
	})
	lacks("3.52.0", "release(Long)", func(ctx context.Context) error { return s.java.Release(ctx, 1) })
	lacks("4.4.0", "org.redisson.api.ratelimiter.RateLimiterArgs", func(ctx context.Context) error {
		return s.java.SetRate(ctx, config(overall, 5, minute), true)
	})
}

// lacking matches the error of a method that a release does not have.
func lacking(method string) OmegaMatcher {
	return MatchError(And(
		ContainSubstring("UnsupportedOperationException"), ContainSubstring(method+" does not exist")))
}
