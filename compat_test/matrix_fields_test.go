package compat_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter/internal/compare"
)

// fieldSpecs are about the fields of the hash.
func (s *subject) fieldSpecs() {
	s.fact("3.38.0", "trySetRate and setRate write four fields",
		"trySetRate and setRate write three fields",
		func(ctx SpecContext) {
			fields := []string{"interval", "rate", "type"}
			if s.since("3.38.0") {
				fields = []string{"interval", "keepAliveTime", "rate", "type"}
			}
			yes(s.java.TrySetRate(ctx, config(overall, 5, minute)))
			Expect(hashFields(ctx, s.name)).To(Equal(fields))
			yes(s.java.Delete(ctx))
			done(s.java.SetRate(ctx, config(overall, 5, minute), false))
			Expect(hashFields(ctx, s.name)).To(Equal(fields))
		})

	s.fact("3.38.0", "a trySetRate that loses adds keepAliveTime where that is missing",
		"a trySetRate that loses adds nothing",
		func(ctx SpecContext) {
			// As an older Redisson sets it.
			done(look.HSet(ctx, s.name, "rate", 5, "interval", 60000, "type", 0).Err())
			c := config(overall, 9, minute)
			if s.before("3.38.0") {
				no(s.java.TrySetRate(ctx, c))
				Expect(hashFields(ctx, s.name)).To(Equal([]string{"interval", "rate", "type"}))
				return
			}
			c.KeepAlive = minute
			no(s.java.TrySetRate(ctx, c))
			Expect(look.HGetAll(ctx, s.name).Val()).To(HaveKeyWithValue("keepAliveTime", "60000"))
			is(-1)(s.java.TimeToLive(ctx))
			yes(s.java.TryAcquire(ctx, 1, 0)) // now the limiter ends, though no side has asked for that
			is(minute.Milliseconds())(roughly(s.java.TimeToLive(ctx)))
		})

	It("a trySetRate that loses against Go changes nothing", func(ctx SpecContext) {
		yes(s.goes.TrySetRate(ctx, config(overall, 5, minute)))
		before := look.HGetAll(ctx, s.name).Val()
		c := config(overall, 9, minute)
		if s.since("3.38.0") {
			c.KeepAlive = minute
		}
		no(s.java.TrySetRate(ctx, c))
		Expect(look.HGetAll(ctx, s.name).Val()).To(Equal(before))
	})
}

// lifetimeSpecs are about times to live and keepAliveTime.
func (s *subject) lifetimeSpecs() {
	It("what it makes of a time to live and of keepAliveTime", func(ctx SpecContext) {
		c := config(overall, 5, minute/2)
		c.KeepAlive = minute
		yes(s.goes.TrySetRate(ctx, c))
		yes(s.goes.TryAcquire(ctx, 1, 0))
		set := func() {
			done(look.PExpire(ctx, s.keys.hash, 30*time.Second).Err())
			done(look.PExpire(ctx, s.keys.value, 20*time.Second).Err())
			done(look.PExpire(ctx, s.keys.permits, 20*time.Second).Err())
		}
		var want []int64
		switch {
		case s.since("3.38.0"): // prolongs all
			want = []int64{60_000, 60_000, 60_000}
		case s.since("3.17.3"): // the pair ends with the hash, which is not prolonged
			want = []int64{30_000, 30_000, 30_000}
		default: // nothing
			want = []int64{30_000, 20_000, 20_000}
		}
		set()
		yes(s.java.TryAcquire(ctx, 1, 0))
		Expect(lifetimes(ctx, s.keys)).To(Equal(want))
		set()
		no(s.java.TryAcquire(ctx, 5, 0)) // a refusal does the same
		Expect(lifetimes(ctx, s.keys)).To(Equal(want))
		set()
		yes(s.goes.TryAcquire(ctx, 1, 0)) // Go prolongs it beside every generation
		Expect(lifetimes(ctx, s.keys)).To(Equal([]int64{60_000, 60_000, 60_000}))
	})

	s.fact("3.17.3", "value and permits of a limiter that ends, end with it",
		"value and permits outlive a limiter that ends",
		func(ctx SpecContext) {
			yes(s.java.TrySetRate(ctx, config(overall, 5, minute)))
			done(look.PExpire(ctx, s.keys.hash, 30*time.Second).Err())
			yes(s.java.TryAcquire(ctx, 1, 0))
			if s.since("3.17.3") {
				Expect(lifetimes(ctx, s.keys)).To(Equal([]int64{30_000, 30_000, 30_000}))
				return
			}
			Expect(lifetimes(ctx, s.keys)).To(Equal([]int64{30_000, -1, -1}))
			yes(s.goes.TryAcquire(ctx, 1, 0)) // Go corrects that
			Expect(lifetimes(ctx, s.keys)).To(Equal([]int64{30_000, 30_000, 30_000}))
			yes(s.java.TryAcquire(ctx, 1, 0))
			// The hash ends alone.
			yes(look.PExpireAt(ctx, s.keys.hash, time.Now().Add(-time.Second)).Result())
			done(look.Persist(ctx, s.keys.value).Err())
			yes(s.java.TrySetRate(ctx, config(overall, 5, minute)))
			is(2)(s.java.AvailablePermits(ctx)) // what an earlier limiter has left
			done(look.Del(ctx, s.keys.hash).Err())
			yes(s.goes.TrySetRate(ctx, config(overall, 5, minute)))
			is(5)(s.java.AvailablePermits(ctx))
		})

	It("availablePermits takes the time to live from the value", func(ctx SpecContext) {
		yes(s.java.TrySetRate(ctx, config(overall, 5, minute)))
		yes(s.java.TryAcquire(ctx, 2, 0))
		yes(s.java.Expire(ctx, 30*time.Second))
		ages(ctx, s.keys, 2*minute)
		is(5)(s.java.AvailablePermits(ctx))
		Expect(lifetimes(ctx, s.keys)[1]).To(Equal(int64(-1)))
		yes(s.goes.TryAcquire(ctx, 1, 0))
		Expect(lifetimes(ctx, s.keys)[1]).To(Equal(int64(30_000)))
	})

	It("keepAliveTime as an argument", func(ctx SpecContext) {
		c := config(overall, 5, minute)
		c.KeepAlive = minute
		ok, err := s.java.TrySetRate(ctx, c)
		switch {
		case s.before("3.37.0"):
			const unsupported = "java.lang.UnsupportedOperationException"
			thrown(err, unsupported, "trySetRate(RateType, Long, Duration, Duration)")
			thrown(s.java.SetRate(ctx, c, false), unsupported, "setRate(RateType, Long, Duration, Duration)")
			return
		case s.before("3.38.0"): // the limiter ends then, also while it is in use
			yes(ok, err)
			Expect(hashFields(ctx, s.name)).To(Equal([]string{"interval", "rate", "type"}))
		default:
			yes(ok, err)
			Expect(hashFields(ctx, s.name)).To(ContainElement("keepAliveTime"))
		}
		is(60_000)(roughly(s.java.TimeToLive(ctx)))
		done(look.PExpire(ctx, s.keys.hash, 30*time.Second).Err())
		yes(s.java.TryAcquire(ctx, 1, 0))
		left := int64(60_000)
		if s.before("3.38.0") {
			left = 30_000
		}
		is(left)(roughly(s.java.TimeToLive(ctx)))
	})

	if s.since("3.37.0") {
		s.fact("3.38.0", "a keepAliveTime below the interval is refused",
			"a time to live below the interval is taken",
			func(ctx SpecContext) {
				c := config(overall, 5, minute)
				c.KeepAlive = minute - time.Millisecond
				ok, err := s.java.TrySetRate(ctx, c)
				if s.before("3.38.0") {
					yes(ok, err)
					return
				}
				fails(compare.BadArgument, err)
			})
	}
}
