package compat_test

import (
	"context"
	"encoding/binary"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// tooShort is the error of Java for a record that ends too early for it.
const tooShort = "data string too short"

const (
	i16 = wire.Bc0I16
	i8  = wire.Bc0I8
	lc  = wire.Lc0I
	fi  = wire.FI
)

// recordSpecs show which records each side can read. A record is read when it
// expires, and not before: until then a Java that cannot read it goes by the
// value, and nothing seems wrong.
func recordSpecs(g *generation) {
	s := newSubject(g)
	s.readingSpecs()
	s.liveRecordSpecs()
	if g.since("3.17.0") {
		s.threeGenerationsSpec()
		return
	}
	s.wrongFormatSpec()
	leftoverSpecs(g)
}

// readsRight reports whether the generation reads a format right.
func (s *subject) readsRight(f int) bool { return s.beside() == f }

func (s *subject) readingSpecs() {
	DescribeTable("of Go are read", func(ctx SpecContext, f int, right bool) {
		c := rratelimiter.New(server.Client(GinkgoT()), writing(f))
		DeferCleanup(c.Close)
		yes(c.RateLimiter(s.name).TrySetRate(ctx, overall, 5, minute))
		yes(c.RateLimiter(s.name).TryAcquire(ctx, 5, 0))
		Expect(formatOf(onlyRecord(ctx, s.keys))).To(Equal(f))
		s.readExpired(ctx, right)
	},
		Entry("Bc0I/16", i16, s.readsRight(i16)),
		Entry("Bc0I/8", i8, s.readsRight(i16)),
		Entry("Lc0I", lc, s.readsRight(lc)),
		Entry("fI, also by 3.17.0 and later", fi, s.readsRight(fi) || s.readsRight(i16)),
	)

	DescribeTable("of Redisson are read", func(ctx SpecContext, f int, right bool) {
		leave(ctx, s.keys, leftover{f, "0", 0, 5})
		s.readExpired(ctx, right)
	},
		Entry("Bc0I/16", i16, s.readsRight(i16)),
		Entry("Bc0I/8", i8, s.readsRight(i16)),
		Entry("Lc0I", lc, s.readsRight(lc)),
		Entry("fI", fi, s.readsRight(fi)),
	)
}

// readExpired lets the only record of the limiter expire, which holds 5 permits,
// and expects that the generation reads it right or does not.
func (s *subject) readExpired(ctx context.Context, right bool) {
	GinkgoHelper()
	done(look.HSet(ctx, s.name, "rate", 5, "interval", 60000, "type", 0, "keepAliveTime", 0).Err())
	done(look.Set(ctx, s.keys.value, 0, 0).Err())
	ages(ctx, s.keys, 2*minute)
	for _, any := range []*goSide{newest.gos[0], s.gos[0]} {
		is(5)(any.limiter(s.name).AvailablePermits(ctx)) // Go reads all formats, and writes nothing here
	}
	seen, ok := s.reads(onlyRecord(ctx, s.keys))
	Expect(ok && seen == 5).To(Equal(right), "by the table of docs/versions.md")
	if ok {
		is(seen)(s.java.AvailablePermits(ctx))
		return
	}
	for range 2 { // the error stays
		_, err := s.java.AvailablePermits(ctx)
		Expect(err).To(MatchError(ContainSubstring(tooShort)))
		_, err = s.java.TryAcquire(ctx, 1, 0)
		Expect(err).To(MatchError(ContainSubstring(tooShort)))
	}
	yes(s.goes.TryAcquire(ctx, 2, 0)) // Go drops the record
	is(3)(s.java.AvailablePermits(ctx))
	yes(s.java.TryAcquire(ctx, 3, 0))
}

func (s *subject) liveRecordSpecs() {
	It("are what each side says it writes", func(ctx SpecContext) {
		yes(s.java.TrySetRate(ctx, config(overall, 5, minute)))
		yes(s.java.TryAcquire(ctx, 1, 0))
		Expect(formatOf(onlyRecord(ctx, s.keys))).To(Equal(s.writes()))
		yes(s.java.Delete(ctx))
		yes(s.java.TrySetRate(ctx, config(overall, 5, minute)))
		yes(s.goes.TryAcquire(ctx, 1, 0))
		Expect(formatOf(onlyRecord(ctx, s.keys))).To(Equal(s.beside()))
	})

	It("that have not expired do no harm yet", func(ctx SpecContext) {
		yes(s.java.TrySetRate(ctx, config(overall, 5, minute)))
		for _, f := range []int{i16, i8, lc, fi} {
			leave(ctx, s.keys, leftover{f, "1", time.Second, 1})
		}
		yes(s.java.TryAcquire(ctx, 1, 0))
		no(s.java.TryAcquire(ctx, 1, 0))
		is(0)(s.java.AvailablePermits(ctx))
	})
}

func (s *subject) threeGenerationsSpec() {
	It("of three generations in one limiter", func(ctx SpecContext) {
		const interval = 300 * time.Millisecond
		sides := []side{s.javas[0], s.gos[0], newest.javas[1]}
		yes(s.java.TrySetRate(ctx, config(overall, 9, interval)))
		start := time.Now()
		for range 9 {
			for _, one := range sides {
				yes(one.limiter(s.name).TryAcquire(ctx, 1, 5*time.Second))
			}
		}
		// 27 permits, 9 in each interval
		Expect(time.Since(start)).To(BeNumerically(">=", 2*interval-2*time.Millisecond))
	})
}

func (s *subject) wrongFormatSpec() {
	It("of Go without WithRedisson stop it", func(ctx SpecContext) {
		plain := newest.gos[0].limiter(s.name)
		yes(s.java.TrySetRate(ctx, config(overall, 5, minute)))
		yes(plain.TryAcquire(ctx, 4, 0))
		yes(s.java.TryAcquire(ctx, 1, 0)) // nothing seems wrong
		no(s.java.TryAcquire(ctx, 1, 0))
		ages(ctx, s.keys, 2*minute)
		taken := int64(0)
		for _, m := range look.ZRange(ctx, s.keys.permits, 0, -1).Val() {
			permits, _ := s.reads(m)
			taken += permits
		}
		_, err := s.java.TryAcquire(ctx, 1, 0)
		if s.readsRight(lc) {
			Expect(err).To(MatchError(ContainSubstring(tooShort)))
			return
		}
		done(err)
		want := taken - 1 // it takes four random bytes for permits
		if s.since("3.16.2") && taken > 5 {
			want = 5 - 1 // and is lucky: nothing is outstanding
		}
		is(want)(look.Get(ctx, s.keys.value).Int64())
	})
}

// leftoverSpecs are the specs of what a generation before 3.17.0 leaves behind
// when it is taken out of use. The newest cannot work with that before Repair.
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
	// works expects that the newest is right again; it has taken one more permit.
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

	if g.writes() == wire.FI {
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

		const text = "stops it in the same way while newer records count, and Repair keeps those"
		It(text, func(ctx SpecContext) {
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
		ages(ctx, k, 2*minute, wire.Bc0I16)
		no(java.TryAcquire(ctx, 1, 0)) // it subtracts the old ones, because more comes back than fits
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
