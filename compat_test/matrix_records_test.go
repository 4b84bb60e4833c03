package compat_test

import (
	"context"
	"encoding/binary"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

const tooShort = "data string too short" // what Java says of a record that ends too early for it

// recordSpecs are the specs of who can read whose records. A record is read when it
// expires, and not before: until then a Java that cannot read it goes by the
// value, and nothing seems wrong.
func recordSpecs(g *generation) {
	const (
		i16 = rratelimiter.RecordBc0I16
		i8  = rratelimiter.RecordBc0I8
		lc  = rratelimiter.RecordLc0I
		fi  = rratelimiter.RecordFI
	)
	var (
		name string
		java limiter
		k    keys
	)
	BeforeEach(func() {
		name = redistest.Name(GinkgoT())
		java, k = g.javas[0].limiter(name), keysOf(name)
	})

	It("are what each side says it writes", func(ctx SpecContext) {
		yes(java.TrySetRate(ctx, config(overall, 5, minute)))
		yes(java.TryAcquire(ctx, 1, 0))
		Expect(formatOf(onlyRecord(ctx, k))).To(Equal(g.writes()))
		yes(java.Delete(ctx))
		yes(java.TrySetRate(ctx, config(overall, 5, minute)))
		yes(g.gos[0].limiter(name).TryAcquire(ctx, 1, 0))
		Expect(formatOf(onlyRecord(ctx, k))).To(Equal(g.beside()))
	})

	// reads expects what is left of a limiter with one record of 5 permits that
	// has expired.
	reads := func(ctx context.Context, right bool) {
		GinkgoHelper()
		done(look.HSet(ctx, name, "rate", 5, "interval", 60000, "type", 0, "keepAliveTime", 0).Err())
		done(look.Set(ctx, k.value, 0, 0).Err())
		ages(ctx, k, 2*minute)
		for _, any := range []*goSide{newest.gos[0], g.gos[0]} {
			is(5)(any.limiter(name).AvailablePermits(ctx)) // Go reads all of them, and Peek writes nothing
		}
		seen, ok := g.reads(onlyRecord(ctx, k))
		Expect(ok && seen == 5).To(Equal(right), "by the table of docs/versions.md")
		if ok {
			is(seen)(java.AvailablePermits(ctx))
			return
		}
		for range 2 { // for good
			_, err := java.AvailablePermits(ctx)
			Expect(err).To(MatchError(ContainSubstring(tooShort)))
			_, err = java.TryAcquire(ctx, 1, 0)
			Expect(err).To(MatchError(ContainSubstring(tooShort)))
		}
		yes(g.gos[0].limiter(name).TryAcquire(ctx, 2, 0)) // until Go has dropped it
		is(3)(java.AvailablePermits(ctx))
		yes(java.TryAcquire(ctx, 3, 0))
	}
	of := func(f rratelimiter.RecordFormat) bool { return g.beside() == f }

	DescribeTable("of Go are read", func(ctx SpecContext, f rratelimiter.RecordFormat, right bool) {
		c := rratelimiter.New(server.Client(GinkgoT()), rratelimiter.WithRecordFormat(f))
		DeferCleanup(c.Close)
		yes(c.RateLimiter(name).TrySetRate(ctx, overall, 5, minute))
		yes(c.RateLimiter(name).TryAcquire(ctx, 5, 0))
		Expect(formatOf(onlyRecord(ctx, k))).To(Equal(f))
		reads(ctx, right)
	},
		Entry("Bc0I/16", i16, of(i16)),
		Entry("Bc0I/8", i8, of(i16)),
		Entry("Lc0I", lc, of(lc)),
		Entry("fI, by 3.17.0 and later, too", fi, of(fi) || of(i16)),
	)

	DescribeTable("of Redisson are read", func(ctx SpecContext, f rratelimiter.RecordFormat, right bool) {
		leave(ctx, k, f, "0", 0, 5)
		reads(ctx, right)
	},
		Entry("Bc0I/16", i16, of(i16)),
		Entry("Bc0I/8", i8, of(i16)),
		Entry("Lc0I", lc, of(lc)),
		Entry("fI", fi, of(fi)),
	)

	It("of one who has not expired do no harm yet", func(ctx SpecContext) {
		yes(java.TrySetRate(ctx, config(overall, 5, minute)))
		for _, f := range []rratelimiter.RecordFormat{i16, i8, lc, fi} {
			leave(ctx, k, f, "1", time.Second, 1)
		}
		yes(java.TryAcquire(ctx, 1, 0))
		no(java.TryAcquire(ctx, 1, 0))
		is(0)(java.AvailablePermits(ctx))
	})

	if g.since("3.17.0") {
		It("of three generations in one limiter", func(ctx SpecContext) {
			const interval = 300 * time.Millisecond
			sides := []side{g.javas[0], g.gos[0], newest.javas[1]}
			yes(java.TrySetRate(ctx, config(overall, 9, interval)))
			start := time.Now()
			for range 9 {
				for _, s := range sides {
					yes(s.limiter(name).TryAcquire(ctx, 1, 5*time.Second))
				}
			}
			Expect(time.Since(start)).To(BeNumerically(">=", 2*interval-2*time.Millisecond)) // 27 permits, 9 at once
		})
	} else {
		It("of Go without WithRecordFormat stop it", func(ctx SpecContext) {
			plain := newest.gos[0].limiter(name)
			yes(java.TrySetRate(ctx, config(overall, 5, minute)))
			yes(plain.TryAcquire(ctx, 4, 0))
			yes(java.TryAcquire(ctx, 1, 0)) // nothing seems wrong
			no(java.TryAcquire(ctx, 1, 0))
			ages(ctx, k, 2*minute)
			taken := int64(0)
			for _, m := range look.ZRange(ctx, k.permits, 0, -1).Val() {
				permits, _ := g.reads(m)
				taken += permits
			}
			_, err := java.TryAcquire(ctx, 1, 0)
			if of(lc) {
				Expect(err).To(MatchError(ContainSubstring(tooShort)))
				return
			}
			done(err)
			want := taken - 1 // it takes four bytes that were left to chance for permits
			if g.since("3.16.2") && taken > 5 {
				want = 5 - 1 // and has luck: nothing is outstanding
			}
			is(want)(look.Get(ctx, k.value).Int64())
		})
		leftoverSpecs(g)
	}
}

// leftoverSpecs are the specs of what a generation before 3.17.0 leaves behind when it
// is taken out of use: the newest cannot go on with that, until Repair.
func leftoverSpecs(g *generation) {
	var (
		name            string
		old, java, goes limiter
		k               keys
	)
	BeforeEach(func(ctx SpecContext) {
		name = redistest.Name(GinkgoT())
		old, java, goes = g.javas[0].limiter(name), newest.javas[0].limiter(name), newest.gos[0].limiter(name)
		k = keysOf(name)
		yes(old.TrySetRate(ctx, config(overall, 5, minute)))
		for _, permits := range []int64{2, 1, 1} {
			yes(old.TryAcquire(ctx, permits, 0))
		}
	})
	repair := func(ctx context.Context, s *goSide, want rratelimiter.Repaired) {
		GinkgoHelper()
		Expect(s.c.RateLimiter(name).Repair(ctx)).To(Equal(want))
	}
	// works expects that the newest is right again, though one more is taken.
	works := func(ctx context.Context) {
		GinkgoHelper()
		Expect(k.state(ctx)).To(Equal(state{"1", []int64{1, 1, 2}}))
		no(java.TryAcquire(ctx, 2, 0))
		yes(java.TryAcquire(ctx, 1, 0))
		ages(ctx, k, 2*minute)
		is(5)(java.AvailablePermits(ctx))
		yes(java.TryAcquire(ctx, 5, 0))
		no(java.TryAcquire(ctx, 1, 0))
	}

	It("is brought into the new format by Repair, before it does any harm", func(ctx SpecContext) {
		repair(ctx, newest.gos[0], rratelimiter.Repaired{Records: 3, Rewritten: 3})
		repair(ctx, newest.gos[0], rratelimiter.Repaired{Records: 3})
		works(ctx)
	})

	It("is brought back into its own format by a Repair of a Client that writes that", func(ctx SpecContext) {
		repair(ctx, newest.gos[0], rratelimiter.Repaired{Records: 3, Rewritten: 3})
		repair(ctx, g.gos[0], rratelimiter.Repaired{Records: 3, Rewritten: 3})
		Expect(k.by(g.gos[0], g.gos[0]).state(ctx)).To(Equal(state{"1", []int64{1, 1, 2}}))
		ages(ctx, k, 2*minute)
		is(5)(old.AvailablePermits(ctx))
		yes(old.TryAcquire(ctx, 5, 0))
	})

	if g.writes() == rratelimiter.RecordFI {
		It("stops the newest for good once it has expired, until Repair", func(ctx SpecContext) {
			yes(java.TryAcquire(ctx, 1, 0)) // nothing seems wrong
			ages(ctx, k, 2*minute)
			for range 2 {
				_, err := java.TryAcquire(ctx, 1, 0)
				Expect(err).To(MatchError(ContainSubstring(tooShort)))
				_, err = java.AvailablePermits(ctx)
				Expect(err).To(MatchError(ContainSubstring(tooShort)))
			}
			is(5)(goes.AvailablePermits(ctx))
			repair(ctx, newest.gos[0], rratelimiter.Repaired{})
			yes(java.TryAcquire(ctx, 5, 0))
			no(java.TryAcquire(ctx, 1, 0))
		})

		It("stops it in the same way while newer records count, and Repair keeps those", func(ctx SpecContext) {
			ages(ctx, k, 2*minute)
			yes(old.TryAcquire(ctx, 4, 0)) // drops the three
			done(look.HSet(ctx, name, "rate", 6).Err())
			done(look.IncrBy(ctx, k.value, 1).Err())
			yes(java.TryAcquire(ctx, 1, 0))
			repair(ctx, newest.gos[0], rratelimiter.Repaired{Records: 2, Rewritten: 1})
			Expect(k.state(ctx)).To(Equal(state{"1", []int64{1, 4}}))
		})
		return
	}

	It("gives the newest any number of permits once it has expired, until Repair", func(ctx SpecContext) {
		random := int64(0)
		for _, m := range look.ZRange(ctx, k.permits, 0, -1).Val() {
			random += int64(binary.LittleEndian.Uint32([]byte(m[9:13])))
		}
		ages(ctx, k, 2*minute)
		is(1 + random)(java.AvailablePermits(ctx))
		for range 4 {
			yes(java.TryAcquire(ctx, 5, 0)) // of 5 a minute
		}
		repair(ctx, newest.gos[0], rratelimiter.Repaired{Records: 4, Drift: 1 + random - 20 - (5 - 20)})
		no(java.TryAcquire(ctx, 1, 0))
		ages(ctx, k, 2*minute)
		yes(java.TryAcquire(ctx, 5, 0))
		no(java.TryAcquire(ctx, 1, 0))
	})

	It("makes the newest refuse everything while a part of it counts, until Repair", func(ctx SpecContext) {
		yes(java.TryAcquire(ctx, 1, 0))
		done(java.Release(ctx, 5)) // to the rate
		ages(ctx, k, 2*minute, rratelimiter.RecordBc0I16)
		no(java.TryAcquire(ctx, 1, 0)) // it counts the old ones, because more comes back than fits
		value, err := look.Get(ctx, k.value).Int64()
		done(err)
		Expect(value).To(BeNumerically("<", -1000))
		repair(ctx, newest.gos[0], rratelimiter.Repaired{Records: 3, Rewritten: 3, Drift: value - 1})
		works(ctx)
	})
}

// onlyRecord returns the one record of a limiter.
func onlyRecord(ctx context.Context, k keys) string {
	GinkgoHelper()
	members, err := look.ZRange(ctx, k.permits, 0, -1).Result()
	done(err)
	Expect(members).To(HaveLen(1))
	return members[0]
}
