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
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// Locks that Go and Java share, and the names and times of Java's that the specs of Go's locks rely on:
// they are in one container because they share the JVM.
var _ = func() bool {
	for _, g := range lockGenerations {
		Describe("Locks of Redisson "+g.version, Ordered, ContinueOnFailure, g.labels("locks"), func() {
			if g != newest {
				BeforeAll(g.start, NodeTimeout(5*time.Minute)) // may have to build it
			}
			s := newLockSubject(g)
			s.lockNameSpecs()
			s.clusterSpecs()
			for _, kind := range sharedKinds {
				Context(string(kind)+" with Go", func() {
					s.togetherSpecs(kind)
					s.crowdSpecs(kind)
				})
			}
			s.tokenTogetherSpecs()
		})
	}
	return true
}()

// lockNameSpecs are about names with braces, and with a prefix.
func (s *lockSubject) lockNameSpecs() {
	It("may have names with braces", func(ctx SpecContext) {
		s.named("{" + redistest.Name(GinkgoT()) + "}x")
		s.allKeys(ctx, s.javas[1].client)
		Expect(s.keys.Queue).To(Equal("redisson_lock_queue:" + s.name))
	})

	It("have their names mapped", func(ctx SpecContext) {
		client := s.instance(ctx, javapeer.NamePrefix("pre:"))
		bare := s.keys
		s.keys = wire.LockKeysOf("pre:" + s.name)
		if s.before(sinceFairNames) {
			s.keys.Queue, s.keys.Timeout = bare.Queue, bare.Timeout
		}
		s.allKeys(ctx, client)
	})
}

// allKeys expects the keys of the subject, and no others, of a fair lock that another thread
// waits for and of a fenced lock.
func (s *lockSubject) allKeys(ctx context.Context, client string) {
	GinkgoHelper()
	a, b := s.holder(ctx, javapeer.Fair, client), s.holder(ctx, javapeer.Fair, client)
	tag := "*" + strings.Trim(s.name, "{}x") + "*"
	a.locks(ctx)
	waits := b.StartLock(b.thread)
	listens(ctx, s.keys.Channel+":"+b.owner, 1)
	Expect(look.Keys(ctx, tag).Val()).To(ConsistOf(s.keys.Hash, s.keys.Queue, s.keys.Timeout))
	a.unlocks(ctx)
	_, err := waits.Wait(ctx)
	done(err)
	yes(b.Delete(ctx))

	f := s.holder(ctx, javapeer.Fenced, client)
	e := newEar(ctx, s.keys.Channel)
	f.locks(ctx)
	is(2)(look.Exists(ctx, s.keys.Hash, s.keys.Token).Result())
	f.unlocks(ctx)
	Expect(e.heard(ctx)).To(Equal([]string{s.keys.Channel + " 0"}))
}

// sharedKinds are the kinds of locks that these specs have in Go.
var sharedKinds = []javapeer.LockKind{javapeer.Reentrant, javapeer.Fenced}

// togetherSpecs are about a lock that Go and Java share.
func (s *lockSubject) togetherSpecs(kind javapeer.LockKind) {
	It("keeps one language out while the other has it", func(ctx SpecContext) {
		var shapes [][]lockShape
		s.bothWays(ctx, kind, func(first, second rival) {
			shapes = append(shapes, s.passes(ctx, first, second))
			if first.String() == "Go" {
				latches := func() []string { return look.Keys(ctx, s.keys.IdempotencyKeys+"*").Val() }
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
			e := newEar(ctx, s.keys.Channel)
			yes(second.ForceUnlock(ctx))
			s.free(ctx)
			no(second.ForceUnlock(ctx))
			Expect(e.heard(ctx)).To(Equal([]string{s.keys.Channel + " 0"}))
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
		s.keys = wire.LockKeysOf("pre:" + s.name)
		for _, pair := range [][2]rival{{g, j}, {j, g}} {
			s.passes(ctx, pair[0], pair[1])
			s.wakes(ctx, pair[0], pair[1], endless)
			Expect(pair[0].field()).To(HavePrefix(node + ":"))
		}
		Expect(g.field()).NotTo(Equal(j.field()))
		bare.unlocks(ctx)
	}, SpecTimeout(time.Minute))
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
	hash := look.HGetAll(ctx, s.keys.Hash).Val()
	Expect(slices.Collect(maps.Keys(hash))).To(Equal([]string{r.field()}))
	Expect(r.field()).To(MatchRegexp("^[0-9a-f-]{36}:[1-9][0-9]*$"))
	lease, err := roughly(look.Do(ctx, "PTTL", s.keys.Hash).Int64())
	done(err)
	return lockShape{
		what: look.Type(ctx, s.keys.Hash).Val(), encoding: look.ObjectEncoding(ctx, s.keys.Hash).Val(),
		counts: slices.Collect(maps.Values(hash)), lease: time.Duration(lease) * time.Millisecond,
		others: slices.DeleteFunc(look.Keys(ctx, "redisson_*"+s.keys.Hash+"*").Val(), func(key string) bool {
			return strings.HasPrefix(key, s.keys.IdempotencyKeys)
		}),
	}
}

// has expects the lock to be held by r.
func (s *lockSubject) has(ctx context.Context, r rival, count int64) {
	GinkgoHelper()
	Expect(look.HGetAll(ctx, s.keys.Hash).Val()).To(HaveLen(1))
	is(count)(look.HGet(ctx, s.keys.Hash, r.field()).Int64())
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
	e := newEar(ctx, s.keys.Channel)
	first.unlocks(ctx)
	gets()
	Expect(e.heard(ctx)).To(Equal([]string{s.keys.Channel + " 0"}))
	s.has(ctx, second, 1)
	s.expires(ctx, 30*time.Second)
	no(first.tries(ctx, 0))
	second.unlocks(ctx)
	s.free(ctx)
	listens(ctx, s.keys.Channel, 0)
}

// tokenTogetherSpecs are about a fenced lock that Go and Java share.
func (s *lockSubject) tokenTogetherSpecs() {
	It("count the grants of both languages", func(ctx SpecContext) {
		a, _, _ := s.holders(ctx, javapeer.Fenced)
		g := s.goHolder(javapeer.Fenced)
		is(0)(g.lastToken(ctx))
		var last int64
		for _, r := range []rival{g, a, a, g, g, a} {
			for range 2 { // each hold of one's own lock draws a token as well
				token := r.takesToken(ctx)
				Expect(token).To(BeNumerically(">", last), "the token of %v", r)
				last = token
			}
			for range 2 {
				r.unlocks(ctx)
			}
			is(last)(g.lastToken(ctx))
			is(last)(a.lastToken(ctx))
		}
		is(last)(look.Get(ctx, s.keys.Token).Int64())
		is(last + 1)(a.LockAndGetToken(ctx, a.thread)) // Java counts on
		a.unlocks(ctx)
		is(-1)(look.Do(ctx, "PTTL", s.keys.Token).Int64())
	})

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
		listens(ctx, s.keys.Channel, 1)
		a.unlocks(ctx)
		gets()
		Expect(g.hold.Token()).To(BeNumerically(">", 1))
		b.hasLost(ctx)
		g.unlocks(ctx)
	}, SpecTimeout(time.Minute))
}
