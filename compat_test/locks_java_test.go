package compat_test

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
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
			s.queueSpecs()
			s.clusterSpecs()
			for _, kind := range sharedKinds {
				Context(string(kind)+" with Go", func() {
					s.togetherSpecs(kind)
					s.crowdSpecs(kind)
				})
			}
			s.tokenTogetherSpecs()
			if g == newest {
				s.renewalSpecs()
			}
		})
	}
	return true
}()

// lockNameSpecs are about names with braces, and with a prefix.
func (s *lockSubject) lockNameSpecs() {
	It("may have names with braces", func(ctx SpecContext) {
		s.named("{" + redistest.Name(GinkgoT()) + "}x")
		s.allKeys(ctx, s.javas[1].client)
		Expect(s.keys.queue).To(Equal("redisson_lock_queue:" + s.name))
	})

	It("have their names mapped", func(ctx SpecContext) {
		client := s.instance(ctx, javapeer.NamePrefix("pre:"))
		bare := s.keys
		s.keys = lockKeysOf("pre:" + s.name)
		if s.before(sinceFairNames) {
			s.keys.queue, s.keys.timeouts = bare.queue, bare.timeouts
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
	listens(ctx, s.keys.channel+":"+b.owner, 1)
	Expect(look.Keys(ctx, tag).Val()).To(ConsistOf(s.keys.hash, s.keys.queue, s.keys.timeouts))
	a.unlocks(ctx)
	_, err := waits.Wait(ctx)
	done(err)
	yes(b.Delete(ctx))

	f := s.holder(ctx, javapeer.Fenced, client)
	e := newEar(ctx, s.keys.channel)
	f.locks(ctx)
	is(2)(look.Exists(ctx, s.keys.hash, s.keys.token).Result())
	f.unlocks(ctx)
	Expect(e.heard(ctx)).To(Equal([]string{s.keys.channel + " 0"}))
}
