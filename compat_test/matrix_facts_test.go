package compat_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// factSpecs are what sets a generation apart: each spec says what it does, and the
// generations that do something else are expected to do that. docs/versions.md
// has them in words, and what follows for Go beside them.
func factSpecs(g *generation) {
	var (
		name       string
		java, goes limiter
		k          keys
	)
	BeforeEach(func() {
		name = redistest.Name(GinkgoT())
		java, goes = g.javas[0].limiter(name), g.gos[0].limiter(name)
		k = keysOf(name).by(g.javas[0], g.gos[0])
	})
	// fact names a spec by what holds since a version, or by what held before.
	fact := func(since, text, before string, spec func(ctx SpecContext)) {
		if g.before(since) {
			text = before
		}
		It(text, func(ctx SpecContext) { spec(ctx) })
	}

	fact("3.38.0", "trySetRate and setRate write four fields", "trySetRate and setRate write three fields", func(ctx SpecContext) {
		fields := []string{"interval", "rate", "type"}
		if g.since("3.38.0") {
			fields = []string{"interval", "keepAliveTime", "rate", "type"}
		}
		yes(java.TrySetRate(ctx, config(overall, 5, minute)))
		Expect(hashFields(ctx, name)).To(Equal(fields))
		yes(java.Delete(ctx))
		done(java.SetRate(ctx, config(overall, 5, minute), false))
		Expect(hashFields(ctx, name)).To(Equal(fields))
	})

	fact("3.38.0", "a trySetRate that loses adds keepAliveTime where that is missing", "a trySetRate that loses adds nothing", func(ctx SpecContext) {
		done(look.HSet(ctx, name, "rate", 5, "interval", 60000, "type", 0).Err()) // as an older one sets it
		c := config(overall, 9, minute)
		if g.before("3.38.0") {
			no(java.TrySetRate(ctx, c))
			Expect(hashFields(ctx, name)).To(Equal([]string{"interval", "rate", "type"}))
			return
		}
		c.KeepAlive = minute
		no(java.TrySetRate(ctx, c))
		Expect(look.HGetAll(ctx, name).Val()).To(HaveKeyWithValue("keepAliveTime", "60000"))
		is(-1)(java.TimeToLive(ctx))
		yes(java.TryAcquire(ctx, 1, 0)) // and now the limiter ends, which nobody had asked for
		is(minute.Milliseconds())(roughly(java.TimeToLive(ctx)))
	})

	It("a trySetRate that loses against Go changes nothing", func(ctx SpecContext) {
		yes(goes.TrySetRate(ctx, config(overall, 5, minute)))
		before := look.HGetAll(ctx, name).Val()
		c := config(overall, 9, minute)
		if g.since("3.38.0") {
			c.KeepAlive = minute
		}
		no(java.TrySetRate(ctx, c))
		Expect(look.HGetAll(ctx, name).Val()).To(Equal(before))
	})

	It("what it makes of a time to live and of keepAliveTime", func(ctx SpecContext) {
		c := config(overall, 5, minute/2)
		c.KeepAlive = minute
		yes(goes.TrySetRate(ctx, c))
		yes(goes.TryAcquire(ctx, 1, 0))
		set := func() {
			done(look.PExpire(ctx, k.hash, 30*time.Second).Err())
			done(look.PExpire(ctx, k.value, 20*time.Second).Err())
			done(look.PExpire(ctx, k.permits, 20*time.Second).Err())
		}
		var want []int64
		switch {
		case g.since("3.38.0"): // prolongs all
			want = []int64{60_000, 60_000, 60_000}
		case g.since("3.17.3"): // the pair ends with the hash, which is not prolonged
			want = []int64{30_000, 30_000, 30_000}
		default: // nothing
			want = []int64{30_000, 20_000, 20_000}
		}
		set()
		yes(java.TryAcquire(ctx, 1, 0))
		Expect(lifetimes(ctx, k)).To(Equal(want))
		set()
		no(java.TryAcquire(ctx, 5, 0)) // a refusal does the same
		Expect(lifetimes(ctx, k)).To(Equal(want))
		set()
		yes(goes.TryAcquire(ctx, 1, 0)) // Go prolongs it beside all of them
		Expect(lifetimes(ctx, k)).To(Equal([]int64{60_000, 60_000, 60_000}))
	})

	fact("3.17.3", "value and permits of a limiter that ends, end with it", "value and permits outlive a limiter that ends", func(ctx SpecContext) {
		yes(java.TrySetRate(ctx, config(overall, 5, minute)))
		done(look.PExpire(ctx, k.hash, 30*time.Second).Err())
		yes(java.TryAcquire(ctx, 1, 0))
		if g.since("3.17.3") {
			Expect(lifetimes(ctx, k)).To(Equal([]int64{30_000, 30_000, 30_000}))
			return
		}
		Expect(lifetimes(ctx, k)).To(Equal([]int64{30_000, -1, -1}))
		yes(goes.TryAcquire(ctx, 1, 0)) // Go sees to it
		Expect(lifetimes(ctx, k)).To(Equal([]int64{30_000, 30_000, 30_000}))
		yes(java.TryAcquire(ctx, 1, 0))
		yes(look.PExpireAt(ctx, k.hash, time.Now().Add(-time.Second)).Result()) // the hash ends alone
		done(look.Persist(ctx, k.value).Err())
		yes(java.TrySetRate(ctx, config(overall, 5, minute)))
		is(2)(java.AvailablePermits(ctx)) // what an earlier limiter has left
		done(look.Del(ctx, k.hash).Err())
		yes(goes.TrySetRate(ctx, config(overall, 5, minute)))
		is(5)(java.AvailablePermits(ctx))
	})

	It("availablePermits takes the time to live from the value", func(ctx SpecContext) {
		yes(java.TrySetRate(ctx, config(overall, 5, minute)))
		yes(java.TryAcquire(ctx, 2, 0))
		yes(java.Expire(ctx, 30*time.Second))
		ages(ctx, k, 2*minute)
		is(5)(java.AvailablePermits(ctx))
		Expect(lifetimes(ctx, k)[1]).To(Equal(int64(-1)))
		yes(goes.TryAcquire(ctx, 1, 0))
		Expect(lifetimes(ctx, k)[1]).To(Equal(int64(30_000)))
	})

	It("keepAliveTime as an argument", func(ctx SpecContext) {
		c := config(overall, 5, minute)
		c.KeepAlive = minute
		ok, err := java.TrySetRate(ctx, c)
		switch {
		case g.before("3.37.0"):
			Expect(err).To(lacking("trySetRate(RateType, Long, Duration, Duration)"))
			Expect(java.SetRate(ctx, c, false)).To(lacking("setRate(RateType, Long, Duration, Duration)"))
			return
		case g.before("3.38.0"): // the limiter ends then, whatever use it is in
			yes(ok, err)
			Expect(hashFields(ctx, name)).To(Equal([]string{"interval", "rate", "type"}))
		default:
			yes(ok, err)
			Expect(hashFields(ctx, name)).To(ContainElement("keepAliveTime"))
		}
		is(60_000)(roughly(java.TimeToLive(ctx)))
		done(look.PExpire(ctx, k.hash, 30*time.Second).Err())
		yes(java.TryAcquire(ctx, 1, 0))
		left := int64(60_000)
		if g.before("3.38.0") {
			left = 30_000
		}
		is(left)(roughly(java.TimeToLive(ctx)))
	})

	if g.since("3.37.0") {
		fact("3.38.0", "a keepAliveTime below the interval is refused", "a time to live below the interval is taken", func(ctx SpecContext) {
			c := config(overall, 5, minute)
			c.KeepAlive = minute - time.Millisecond
			ok, err := java.TrySetRate(ctx, c)
			if g.before("3.38.0") {
				yes(ok, err)
				return
			}
			Expect(kind(err)).To(Equal("bad argument"))
		})
	}

	fact("3.22.1", "setRate clears its own pair of a PER_CLIENT limit", "setRate to PER_CLIENT clears the pair of all instead of its own", func(ctx SpecContext) {
		yes(java.TrySetRate(ctx, config(overall, 3, minute)))
		yes(java.TryAcquire(ctx, 3, 0))
		done(java.SetRate(ctx, config(perClient, 3, minute), false))
		shared := int64(2) // keys that stay behind
		if g.before("3.22.1") {
			shared = 0
		}
		is(shared)(look.Exists(ctx, k.value, k.permits).Result())
		yes(java.TryAcquire(ctx, 3, 0))
		yes(goes.TryAcquire(ctx, 3, 0))
		done(java.SetRate(ctx, config(perClient, 5, minute), false))
		left := int64(5)
		if g.before("3.22.1") {
			left = 0 // until its records expire
		}
		is(left)(java.AvailablePermits(ctx))
		is(2)(goes.AvailablePermits(ctx)) // Go keeps what it owes, and has the new rate at once
	})

	It("the value where more comes back than fits", func(ctx SpecContext) {
		yes(java.TrySetRate(ctx, config(overall, 5, minute)))
		overfull := func() {
			done(look.Del(ctx, k.value, k.permits).Err())
			leave(ctx, k, g.beside(), "5", minute+time.Second, 1)
			leave(ctx, k, g.beside(), "5", 0, 4)
		}
		overfull()
		yes(java.TryAcquire(ctx, 1, 0))
		left := "0" // 5 less the 4 that are outstanding, less 1
		switch {
		case g.before("3.16.2"):
			left = "5" // 5 and 1 that comes back, less 1: 4 + 5 of 5
		case g.before("3.35.0"):
			left = "3" // 5 less one record, whatever it holds, less 1: 4 + 4 of 5
		}
		Expect(look.Get(ctx, k.value).Val()).To(Equal(left))
		overfull()
		yes(goes.TryAcquire(ctx, 1, 0))
		no(goes.TryAcquire(ctx, 1, 0))
		no(java.TryAcquire(ctx, 1, 0))
		Expect(k.state(ctx)).To(Equal(state{"0", []int64{1, 4}}))
	})

	It("the text of the error for more permits than the rate", func(ctx SpecContext) {
		yes(java.TrySetRate(ctx, config(overall, 5, minute)))
		_, err := java.TryAcquire(ctx, 6, 0)
		text := "Requested permits amount cannot exceed defined rate"
		if g.before("3.35.0") {
			text = "Requested permits amount could not exceed defined rate"
		}
		said, _, _ := strings.Cut(err.Error(), ". channel:")
		Expect(said).To(ContainSubstring(text))
	})

	fact("3.18.0", "getConfig of no limiter is 0 permits per 0 ms", "getConfig of no limiter is an exception", func(ctx SpecContext) {
		c, err := java.Config(ctx)
		if g.since("3.18.0") {
			Expect(c, err).To(Equal(rratelimiter.Config{}))
		} else {
			Expect(err).To(MatchError(ContainSubstring("Unexpected exception while processing command")))
		}
		_, err = goes.Config(ctx)
		Expect(err).To(MatchError(rratelimiter.ErrNotInitialized))
	})

	fact("3.37.0", "of the timeouts below zero -1 ms alone is for ever", "a timeout below zero is for ever", func(ctx SpecContext) {
		forever := []time.Duration{-time.Millisecond}
		if g.before("3.37.0") {
			forever = append(forever, -2*time.Millisecond, -time.Second)
		} else {
			yes(java.TrySetRate(ctx, config(overall, 1, minute)))
			yes(java.TryAcquire(ctx, 1, 0))
			no(java.TryAcquire(ctx, 1, -2*time.Millisecond))
			no(java.TryAcquire(ctx, 1, -time.Second))
		}
		done(java.SetRate(ctx, config(overall, 1, 200*time.Millisecond), false))
		yes(java.TryAcquire(ctx, 1, 0))
		for _, timeout := range forever {
			yes(java.TryAcquire(ctx, 1, timeout))
		}
	})

	lacks := func(since, method string, call func(ctx context.Context) error) {
		fact(since, "has "+method, "has no "+method, func(ctx SpecContext) {
			yes(java.TrySetRate(ctx, config(overall, 5, minute)))
			if err := call(ctx); g.before(since) {
				Expect(err).To(lacking(method))
			} else {
				done(err)
			}
		})
	}
	lacks("3.17.0", "expireIfSet(Duration)", func(ctx context.Context) error { _, err := java.ExpireIfSet(ctx, minute); return err })
	lacks("3.17.0", "expireIfNotSet(Duration)", func(ctx context.Context) error { _, err := java.ExpireIfNotSet(ctx, minute); return err })
	lacks("3.17.0", "expireIfGreater(Duration)", func(ctx context.Context) error { _, err := java.ExpireIfGreater(ctx, minute); return err })
	lacks("3.17.0", "expireIfLess(Duration)", func(ctx context.Context) error { _, err := java.ExpireIfLess(ctx, minute); return err })
	lacks("3.17.0", "getExpireTime()", func(ctx context.Context) error { _, err := java.ExpireTime(ctx); return err })
	lacks("3.52.0", "release(Long)", func(ctx context.Context) error { return java.Release(ctx, 1) })
	lacks("4.4.0", "org.redisson.api.ratelimiter.RateLimiterArgs", func(ctx context.Context) error {
		return java.SetRate(ctx, config(overall, 5, minute), true)
	})
}

// lacking matches the error of a method that a release does not have.
func lacking(method string) OmegaMatcher {
	return MatchError(And(ContainSubstring("UnsupportedOperationException"), ContainSubstring(method+" does not exist")))
}

// hashFields returns the fields of a hash, in order.
func hashFields(ctx context.Context, hash string) []string {
	GinkgoHelper()
	all, err := look.HGetAll(ctx, hash).Result()
	done(err)
	return slices.Sorted(maps.Keys(all))
}

// lifetimes are the ms that hash, value and permits have left, rounded up to
// whole tens of seconds.
func lifetimes(ctx context.Context, k keys) (all []int64) {
	GinkgoHelper()
	for _, key := range []string{k.hash, k.value, k.permits} {
		ms, err := roughly(look.Do(ctx, "PTTL", key).Int64())
		done(err)
		all = append(all, ms)
	}
	return all
}

// roughly rounds ms that are left up to whole tens of seconds.
func roughly(ms int64, err error) (int64, error) {
	if ms > 0 {
		ms = (ms + 9999) / 10_000 * 10_000
	}
	return ms, err
}

// leave puts a record of some age into a limiter, as somebody with that format
// has written it, and sets the value.
func leave(ctx context.Context, k keys, f rratelimiter.RecordFormat, value string, age time.Duration, permits byte) {
	GinkgoHelper()
	done(look.Set(ctx, k.value, value, redis.KeepTTL).Err())
	score := float64(time.Now().Add(-age).UnixMilli())
	done(look.ZAdd(ctx, k.permits, redis.Z{Score: score, Member: recordOf(f, permits)}).Err())
}

// ages makes the records of a limiter that old, or those of some formats alone.
func ages(ctx context.Context, k keys, age time.Duration, formats ...rratelimiter.RecordFormat) {
	GinkgoHelper()
	members, err := look.ZRange(ctx, k.permits, 0, -1).Result()
	done(err)
	Expect(members).NotTo(BeEmpty())
	score := float64(time.Now().Add(-age).UnixMilli())
	for _, m := range members {
		if len(formats) == 0 || slices.Contains(formats, formatOf(m)) {
			done(look.ZAdd(ctx, k.permits, redis.Z{Score: score, Member: m}).Err())
		}
	}
}

// recordOf is a record with random bytes that were drawn once and for all; that
// of an fI begins as most of Redisson's do.
func recordOf(f rratelimiter.RecordFormat, permits byte) string {
	const random = "\xa1\xb2\x13\x24\x35\x46\x57\x68\x79\x8a\x9b\xac\xbd\xce\xdf\xe0"
	count := string([]byte{permits, 0, 0, 0})
	switch f {
	case rratelimiter.RecordBc0I16:
		return "\x10" + random + count
	case rratelimiter.RecordBc0I8:
		return "\x08" + random[:8] + count
	case rratelimiter.RecordLc0I:
		return "\x08\x00\x00\x00\x00\x00\x00\x00" + random[:8] + count
	case rratelimiter.RecordFI:
		return "\x88\x10\x89\xdd" + count
	}
	panic(fmt.Sprint("no such format: ", f))
}
