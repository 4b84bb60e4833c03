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

// What Java's locks leave in Redis: the specs of Go's locks rely on it. Those follow in the
// same container, for they share the JVM.
var _ = func() bool {
	for _, g := range lockGenerations {
		Describe("Locks of Redisson "+g.version, Ordered, ContinueOnFailure, g.labels("locks"), func() {
			if g != newest {
				BeforeAll(g.start, NodeTimeout(5*time.Minute)) // may have to build it
			}
			s := newLockSubject(g)
			for _, kind := range lockKinds {
				Context(string(kind), func() {
					s.holdSpecs(kind)
					s.unlockSpecs(kind)
					s.waitSpecs(kind)
				})
			}
			s.watchdogSpecs()
			s.lockNameSpecs()
			s.tokenSpecs()
			s.queueSpecs()
			s.deadSpecs()
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

// holdSpecs are about a lock that is held.
func (s *lockSubject) holdSpecs(kind javapeer.LockKind) {
	It("is a hash with the owner and its holds", func(ctx SpecContext) {
		a, _, _ := s.holders(ctx, kind)
		Expect(a.owner).To(MatchRegexp("^" + s.javas[0].id + ":[1-9][0-9]*$"))
		done(a.Lock.Lock(ctx, a.thread))
		Expect(look.Type(ctx, s.name).Val()).To(Equal("hash"))
		s.held(ctx, a, 1)
		s.expires(ctx, 30*time.Second)
		done(a.LockLease(ctx, a.thread, time.Hour))
		s.held(ctx, a, 2)
		s.expires(ctx, time.Hour)
		done(a.LockLease(ctx, a.thread, time.Minute)) // a shorter lease counts as well
		s.held(ctx, a, 3)
		s.expires(ctx, time.Minute)
		is(3)(a.HoldCount(ctx, a.thread))

		want := []string{s.name}
		if kind == javapeer.Fenced {
			want = append(want, s.keys.token)
		}
		Expect(look.Keys(ctx, "*"+s.name+"*").Val()).To(ConsistOf(want))
		yes(a.ForceUnlock(ctx))
	})

	It("is refused to others, and not changed by that", func(ctx SpecContext) {
		a, b, _ := s.holders(ctx, kind)
		a.locks(ctx)
		no(b.TryLock(ctx, b.thread))
		before := time.Now()
		no(b.TryLockWait(ctx, b.thread, 50*time.Millisecond))
		const least = 49 * time.Millisecond // Java counts whole milliseconds
		Expect(time.Since(before)).To(BeNumerically(">=", least))
		s.held(ctx, a, 1)
		s.expires(ctx, time.Hour)
		is(0)(look.Exists(ctx, s.keys.queue, s.keys.timeouts).Result())
		a.unlocks(ctx)
		s.free(ctx)
	})
}

// unlockSpecs are about the end of a hold.
func (s *lockSubject) unlockSpecs(kind javapeer.LockKind) {
	It("gives back one hold at a time", func(ctx SpecContext) {
		a, _, _ := s.holders(ctx, kind)
		for range 3 {
			a.locks(ctx)
		}
		e := newEar(ctx, s.keys.channel+"*")
		a.unlocks(ctx)
		s.held(ctx, a, 2)
		s.expires(ctx, time.Hour)
		a.unlocks(ctx)
		s.held(ctx, a, 1)
		if s.since(sinceLease) {
			s.expires(ctx, time.Hour)
		} else {
			s.expires(ctx, 30*time.Second)
		}
		Expect(e.heard(ctx)).To(BeEmpty())
		a.unlocks(ctx)
		s.free(ctx)
		if kind == javapeer.Fair { // nobody waits
			Expect(e.heard(ctx)).To(BeEmpty())
		} else {
			Expect(e.heard(ctx)).To(Equal([]string{s.keys.channel + " 0"}))
		}
	})

	It("leaves no latch", func(ctx SpecContext) { s.latches(ctx, kind) })

	It("fails for a thread without a hold", func(ctx SpecContext) {
		a, b, _ := s.holders(ctx, kind)
		a.locks(ctx)
		node, thread, _ := strings.Cut(b.owner, ":")
		thrown(b.Unlock(ctx, b.thread), "java.lang.IllegalMonitorStateException",
			"attempt to unlock lock, not locked by current thread by node id: "+node+" thread-id: "+thread)
		s.held(ctx, a, 1)
		a.unlocks(ctx)
		if err := a.Unlock(ctx, a.thread); kind == javapeer.Fair {
			done(err)
		} else {
			thrown(err, "java.lang.IllegalMonitorStateException", "attempt to unlock lock")
		}
	})

	It("may be forced by anybody", func(ctx SpecContext) {
		a, b, _ := s.holders(ctx, kind)
		e := newEar(ctx, s.keys.channel+"*")
		for name, end := range map[string]func(context.Context) (bool, error){
			"forceUnlock": b.ForceUnlock, "delete": b.Delete,
		} {
			a.locks(ctx)
			yes(end(ctx))
			s.free(ctx)
			var want []string
			if kind == javapeer.Reentrant || kind == javapeer.Fenced && name == "forceUnlock" {
				want = []string{s.keys.channel + " 0"}
			}
			Expect(e.heard(ctx)).To(Equal(want), name)
		}
		no(b.ForceUnlock(ctx))
		Expect(e.heard(ctx)).To(BeEmpty())
	})
}

// latches expects the latches of two unlocks to come and go as in this generation.
func (s *lockSubject) latches(ctx context.Context, kind javapeer.LockKind) {
	GinkgoHelper()
	a, _, _ := s.holders(ctx, kind)
	a.locks(ctx)
	a.locks(ctx)
	node, _, _ := strings.Cut(a.owner, ":")
	wrong := s.keys.latches + node // removed from 3.52.0 on, until it was mended
	done(look.Set(ctx, wrong, "", time.Minute).Err())
	e := newEar(ctx, "__keyspace@0__:"+s.keys.latches+strings.Repeat("[0-9a-f]", 32))
	a.unlocks(ctx)
	a.unlocks(ctx)
	latches := func() []string { return look.Keys(ctx, s.keys.latches+strings.Repeat("[0-9a-f]", 32)).Val() }
	switch events := e.heard(ctx); {
	case s.before(sinceLatch):
		Expect(events).To(BeEmpty())
	case s.since(sinceWrongLatch) && s.before(sinceOwnLatch):
		Eventually(func() int64 { return look.Exists(ctx, wrong).Val() }, patience).Should(BeZero())
		Expect(latches()).To(HaveLen(2))
		for _, latch := range latches() {
			Expect(look.PTTL(ctx, latch).Val()).To(And(
				BeNumerically(">", 0), BeNumerically("<=", 20*time.Second)))
		}
	default:
		Expect(events).To(ContainElement(HaveSuffix(" set")))
		Eventually(latches, patience).Should(BeEmpty())
		is(1)(look.Exists(ctx, wrong).Result())
	}
}

// waitSpecs are about those who wait for the lock.
func (s *lockSubject) waitSpecs(kind javapeer.LockKind) {
	It("is waited for on a channel", func(ctx SpecContext) {
		a, b, _ := s.holders(ctx, kind)
		a.locks(ctx)
		waits := b.StartLock(b.thread)
		channel := s.channelOf(kind, b)
		listens(ctx, channel, 1)
		e := newEar(ctx, s.keys.channel+"*")
		a.unlocks(ctx)
		_, err := waits.Wait(ctx)
		done(err)
		Expect(e.heard(ctx)).To(Equal([]string{channel + " 0"}))
		s.held(ctx, b, 1)
		listens(ctx, channel, 0)
		b.unlocks(ctx)
		s.free(ctx)
	})

	It("is not waited for after an interrupt", func(ctx SpecContext) {
		a, b, _ := s.holders(ctx, kind)
		a.locks(ctx)
		waits := b.StartLockInterruptibly(b.thread)
		s.parked(ctx, b)
		done(s.peer.Interrupt(ctx, b.thread))
		_, err := waits.Wait(ctx)
		thrown(err, "java.lang.InterruptedException", "")
		listens(ctx, s.channelOf(kind, b), 0)
		queued := look.LRange(ctx, s.keys.queue, 0, -1).Val()
		if kind == javapeer.Fair { // but its place stays
			Expect(queued).To(Equal([]string{b.owner}))
			yes(b.Delete(ctx))
			return
		}
		Expect(queued).To(BeEmpty())
		a.unlocks(ctx)
	})
}

// watchdogSpecs is the spec of leases that are renewed.
func (s *lockSubject) watchdogSpecs() {
	It("are renewed without a lease, all kinds of them", func(ctx SpecContext) {
		client := s.instance(ctx, javapeer.LockWatchdogTimeout(3*time.Second))
		last := map[string]int64{}
		for _, kind := range lockKinds {
			h := s.peer.Lock(client, s.name+string(kind), kind)
			done(h.Lock(ctx, s.name))
			DeferCleanup(func(ctx SpecContext) { done(h.Unlock(ctx, s.name)) })
			last[s.name+string(kind)] = 3000
		}
		Eventually(ctx, func() int {
			for name, before := range last {
				ttl := look.Do(ctx, "PTTL", name).Val().(int64)
				Expect(ttl).To(And(BeNumerically(">", 0), BeNumerically("<=", 3000)))
				if ttl > before {
					delete(last, name)
					continue
				}
				last[name] = ttl
			}
			return len(last)
		}).WithTimeout(patience).WithPolling(5 * time.Millisecond).Should(BeZero())
	})
}

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

// allKeys expects the keys of the subject, and no others, of a fair lock that somebody
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
