package compat_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/rlock"
)

// sharedKinds are the kinds of locks that these specs have in Go.
var sharedKinds = []javapeer.LockKind{javapeer.Reentrant, javapeer.Fenced}

// togetherSpecs are about a lock that Go and Java share.
func (s *lockSubject) togetherSpecs(kind javapeer.LockKind) {
	It("keeps one language out while the other has it", func(ctx SpecContext) {
		var shapes [][]lockShape
		s.bothWays(ctx, kind, func(first, second rival) {
			shapes = append(shapes, s.passes(ctx, first, second))
			if first.String() == "Go" {
				latches := func() []string { return look.Keys(ctx, s.keys.latches+"*").Val() }
				Eventually(latches, patience).Should(BeEmpty())
			}
		})
		Expect(shapes[0]).To(Equal(shapes[1]), "what Go leaves in Redis is what Java does")
	})

	It("wakes one language when the other unlocks", func(ctx SpecContext) {
		s.bothWays(ctx, kind, func(first, second rival) {
			for _, wait := range []time.Duration{endless, patience} {
				s.wakes(ctx, first, second, wait)
			}
		})
	}, SpecTimeout(time.Minute))

	It("may be forced by the other language", func(ctx SpecContext) {
		s.bothWays(ctx, kind, func(first, second rival) {
			first.locks(ctx)
			e := newEar(ctx, s.keys.channel)
			yes(second.ForceUnlock(ctx))
			s.free(ctx)
			no(second.ForceUnlock(ctx))
			Expect(e.heard(ctx)).To(Equal([]string{s.keys.channel + " 0"}))
			second.locks(ctx)
			first.hasLost(ctx)
			s.has(ctx, second, 1)
			second.unlocks(ctx)
		})
	})

	It("is another one under a mapped name, and the same for an ID that both have", func(ctx SpecContext) {
		bare := s.goHolder(kind)
		bare.locks(ctx)
		client := s.instance(ctx, javapeer.NamePrefix("pre:"))
		j := s.holder(ctx, kind, client)
		node, _, _ := strings.Cut(j.owner, ":")
		mapped := clientBeside(rratelimiter.WithID(node),
			rratelimiter.WithNameMapper(func(name string) string { return "pre:" + name }))
		g := &goHolder{goLock: newGoLock(mapped, kind, s.name)}
		s.keys = lockKeysOf("pre:" + s.name)
		for _, pair := range [][2]rival{{g, j}, {j, g}} {
			s.passes(ctx, pair[0], pair[1])
			s.wakes(ctx, pair[0], pair[1], endless)
			Expect(pair[0].field()).To(HavePrefix(node + ":"))
		}
		Expect(g.field()).NotTo(Equal(j.field()))
		bare.unlocks(ctx)
	}, SpecTimeout(time.Minute))
}

// renewalSpecs is the spec of a hold of Go that Java ends: the version of Java is all the
// same.
func (s *lockSubject) renewalSpecs() {
	It("end the context of Go's hold at its next renewal, if Java has forced it", func(ctx SpecContext) {
		const watchdog = 6 * time.Second // renewed after 2 s
		g := s.goHolder(javapeer.Reentrant, rlock.WithWatchdogTimeout(watchdog))
		yes(g.tries(ctx, 0))
		j, _, _ := s.holders(ctx, javapeer.Reentrant)
		yes(j.ForceUnlock(ctx))
		j.locks(ctx)
		Eventually(g.hold.Context().Done(), patience).Should(BeClosed())
		Expect(context.Cause(g.hold.Context())).To(And(
			MatchError(rlock.ErrLost), MatchError(ContainSubstring("it was unlocked by force or deleted"))))
		g.hasLost(ctx)
		s.has(ctx, j, 1)
		s.expires(ctx, time.Hour)
		j.unlocks(ctx)
	})
}

// A lockShape is what is in Redis of a lock, but for the name of its owner.
type lockShape struct {
	what, encoding string
	counts         []string
	lease          time.Duration
	others         []string // keys
}

// shape returns the shape of a lock that is held.
func (s *lockSubject) shape(ctx context.Context, r rival) lockShape {
	GinkgoHelper()
	hash := look.HGetAll(ctx, s.keys.hash).Val()
	Expect(slices.Collect(maps.Keys(hash))).To(Equal([]string{r.field()}))
	Expect(r.field()).To(MatchRegexp("^[0-9a-f-]{36}:[1-9][0-9]*$"))
	lease, err := roughly(look.Do(ctx, "PTTL", s.keys.hash).Int64())
	done(err)
	return lockShape{
		what: look.Type(ctx, s.keys.hash).Val(), encoding: look.ObjectEncoding(ctx, s.keys.hash).Val(),
		counts: slices.Collect(maps.Values(hash)), lease: time.Duration(lease) * time.Millisecond,
		others: slices.DeleteFunc(look.Keys(ctx, "redisson_*"+s.keys.hash+"*").Val(), func(key string) bool {
			return strings.HasPrefix(key, s.keys.latches)
		}),
	}
}

// has expects the lock to be held by r.
func (s *lockSubject) has(ctx context.Context, r rival, count int64) {
	GinkgoHelper()
	Expect(look.HGetAll(ctx, s.keys.hash).Val()).To(HaveLen(1))
	is(count)(look.HGet(ctx, s.keys.hash, r.field()).Int64())
	is(count)(r.count(ctx))
}

// passes has one side lock, the other look, and one unlock. It returns what was in Redis.
func (s *lockSubject) passes(ctx context.Context, first, second rival) (shapes []lockShape) {
	GinkgoHelper()
	first.locks(ctx)
	s.has(ctx, first, 1)
	shapes = append(shapes, s.shape(ctx, first))
	no(second.tries(ctx, 0))
	before := time.Now()
	no(second.tries(ctx, 30*time.Millisecond))
	Expect(time.Since(before)).To(BeNumerically(">=", 28*time.Millisecond)) // Java counts in whole ms

	first.locks(ctx)
	s.has(ctx, first, 2)
	shapes = append(shapes, s.shape(ctx, first))
	is(0)(second.count(ctx))
	yes(second.IsLocked(ctx))
	is(time.Hour.Milliseconds())(roughly(second.remains(ctx)))

	first.unlocks(ctx)
	no(second.tries(ctx, 0))
	s.has(ctx, first, 1)
	shapes = append(shapes, s.shape(ctx, first))
	first.unlocks(ctx)
	s.free(ctx)
	no(second.IsLocked(ctx))
	is(-2)(second.remains(ctx))

	yes(first.tries(ctx, 0)) // without a lease
	shapes = append(shapes, s.shape(ctx, first))
	s.expires(ctx, 30*time.Second)
	first.unlocks(ctx)
	return shapes
}

// wakes has one side unlock what the other waits for. The lease is an hour, so it is the
// message that wakes it.
func (s *lockSubject) wakes(ctx context.Context, first, second rival, wait time.Duration) {
	GinkgoHelper()
	first.locks(ctx)
	gets := second.waits(ctx, wait)
	s.awaits(ctx, second)
	e := newEar(ctx, s.keys.channel)
	first.unlocks(ctx)
	gets()
	Expect(e.heard(ctx)).To(Equal([]string{s.keys.channel + " 0"}))
	s.has(ctx, second, 1)
	s.expires(ctx, 30*time.Second)
	no(first.tries(ctx, 0))
	second.unlocks(ctx)
	s.free(ctx)
	listens(ctx, s.keys.channel, 0)
}
