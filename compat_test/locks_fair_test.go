package compat_test

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/rlock"
)

// Fair locks that Go and Java share.
var _ = func() bool {
	for _, g := range lockGenerations {
		name := "Fair locks beside Redisson " + g.version
		Describe(name, Ordered, ContinueOnFailure, g.labels("locks"), func() {
			if g != newest {
				BeforeAll(g.start, NodeTimeout(5*time.Minute))
			}
			s := newLockSubject(g)
			s.fairTurnSpecs()
			s.fairGhostSpecs()
			s.fairTimeSpecs()
			if g != newest { // for the newest it is among the long waits
				const text = "let Go sleep until the place of an interrupted caller ends (I9, I11d)"
				It(text, func(ctx SpecContext) { s.outlastsInterrupted(ctx) })
			}
		})
	}
	return true
}()

// queue returns the owners that wait, in their order.
func (s *lockSubject) queue(ctx context.Context) []string {
	GinkgoHelper()
	queue, err := look.LRange(ctx, s.keys.Queue, 0, -1).Result()
	done(err)
	return queue
}

// score returns when the place of an owner ends, in ms.
func (s *lockSubject) score(ctx context.Context, owner string) int64 {
	GinkgoHelper()
	score, err := look.ZScore(ctx, s.keys.Timeout, owner).Result()
	done(err)
	return int64(score)
}

// joined waits until a thread listens, and is the last in a queue of this length.
func (s *lockSubject) joined(ctx context.Context, h javaHolder, length int) {
	GinkgoHelper()
	listens(ctx, s.keys.Channel+":"+h.owner, 1)
	Expect(s.queue(ctx)).To(And(HaveLen(length), HaveEach(Not(BeEmpty()))))
	Expect(s.queue(ctx)[length-1]).To(Equal(h.owner))
	is(int64(length))(look.ZCard(ctx, s.keys.Timeout).Result())
}

// fairGo returns the lock as a client of Go sees it.
func (s *lockSubject) fairGo(i int) *rlock.FairLock { return rlock.New(s.gos[i].c).FairLock(s.name) }

// A fairWaiter waits for the lock in either language. gets ends when it has the lock, and
// returns how it unlocks.
type fairWaiter struct {
	owner string
	gets  func(ctx context.Context) (unlock func(context.Context))
}

// fairWaitsGo has a caller of Go wait, and returns when it is the last of so many in the
// queue and listens.
func (s *lockSubject) fairWaitsGo(ctx context.Context, lock *rlock.FairLock, length int) fairWaiter {
	GinkgoHelper()
	hold := make(chan *rlock.Hold, 1)
	go func() {
		defer GinkgoRecover()
		h, err := lock.Lock(ctx)
		done(err)
		hold <- h
	}()
	Eventually(func() int { return len(s.queue(ctx)) }).WithTimeout(patience).
		WithPolling(time.Millisecond).Should(Equal(length))
	owner := s.queue(ctx)[length-1]
	listens(ctx, s.keys.Channel+":"+owner, 1)
	return fairWaiter{owner, func(ctx context.Context) func(context.Context) {
		GinkgoHelper()
		var h *rlock.Hold
		Eventually(ctx, hold).WithTimeout(patience).Should(Receive(&h))
		Expect(h.Owner()).To(Equal(owner))
		return func(ctx context.Context) { done(h.Unlock(ctx)) }
	}}
}

// fairWaitsJava is fairWaitsGo for a thread of Java.
func (s *lockSubject) fairWaitsJava(ctx context.Context, client, length int) fairWaiter {
	GinkgoHelper()
	h := s.holder(ctx, javapeer.Fair, s.javas[client].client)
	started := h.StartLockLease(h.thread, time.Hour)
	s.joined(ctx, h, length)
	return fairWaiter{h.owner, func(ctx context.Context) func(context.Context) {
		_, err := started.Wait(ctx)
		done(err)
		return func(ctx context.Context) { h.unlocks(ctx) }
	}}
}

// fairPlace returns how long the place of an owner lasts.
func (s *lockSubject) fairPlace(ctx context.Context, owner string) time.Duration {
	GinkgoHelper()
	return time.Until(time.UnixMilli(s.score(ctx, owner)))
}

// fairTurnSpecs are about the order in which callers are served.
func (s *lockSubject) fairTurnSpecs() {
	It("serve six callers of both languages in their order", func(ctx SpecContext) {
		hold, err := s.fairGo(0).LockFor(ctx, time.Hour)
		done(err)
		var waiters []fairWaiter
		for i, lock := range []*rlock.FairLock{s.fairGo(0), s.fairGo(1), s.fairGo(0)} {
			waiters = append(waiters, s.fairWaitsJava(ctx, i%2, 2*i+1))
			waiters = append(waiters, s.fairWaitsGo(ctx, lock, 2*i+2))
		}
		var owners []string
		for _, w := range waiters {
			owners = append(owners, w.owner)
		}
		Expect(s.queue(ctx)).To(Equal(owners))
		done(hold.Unlock(ctx))
		for i, w := range waiters {
			unlock := w.gets(ctx)
			Expect(look.HGetAll(ctx, s.name).Val()).To(Equal(map[string]string{w.owner: "1"}))
			Expect(s.queue(ctx)).To(Equal(append([]string{}, owners[i+1:]...)))
			for _, owner := range owners[i+1:] {
				Expect(s.fairPlace(ctx, owner)).To(BeNumerically(">", 15*time.Second), owner)
			}
			unlock(ctx)
		}
		s.free(ctx)
	})

	It("refuse a single attempt while the other language waits (I5)", func(ctx SpecContext) {
		a, b, _ := s.holders(ctx, javapeer.Fair)
		lock := s.fairGo(0)
		a.locks(ctx)
		java := s.fairWaitsJava(ctx, 1, 1)
		_, ok, err := lock.TryLock(ctx, 0, 0)
		no(ok, err)
		goes := s.fairWaitsGo(ctx, lock, 2)
		no(b.TryLock(ctx, b.thread))
		a.unlocks(ctx)
		java.gets(ctx)(ctx)
		goes.gets(ctx)(ctx)
		s.free(ctx)
	})

	It("may be forced by either language, and go to the next", func(ctx SpecContext) {
		a, _, _ := s.holders(ctx, javapeer.Fair)
		lock := s.fairGo(0)
		a.locks(ctx)
		goes := s.fairWaitsGo(ctx, lock, 1)
		yes(a.ForceUnlock(ctx))
		goes.gets(ctx)
		java := s.fairWaitsJava(ctx, 0, 1)
		yes(lock.ForceUnlock(ctx))
		java.gets(ctx)(ctx)
		s.free(ctx)
	})

	It("go to the next of Java when Go leaves while it is free (I10)", func(ctx SpecContext) {
		a, _, _ := s.holders(ctx, javapeer.Fair)
		a.locks(ctx)
		leaving, leave := context.WithCancel(ctx)
		defer leave()
		left := make(chan error, 1)
		go func() {
			_, err := s.fairGo(0).Lock(leaving)
			left <- err
		}()
		Eventually(func() []string { return s.queue(ctx) }).WithTimeout(patience).Should(HaveLen(1))
		java := s.fairWaitsJava(ctx, 0, 2)
		done(look.Del(ctx, s.name).Err()) // without a message
		leave()
		Expect(<-left).To(MatchError(context.Canceled))
		java.gets(ctx)(ctx) // long before the hour that it had read is over
		s.free(ctx)
	})
}

// fairGhostSpecs are about owners in the queue that do not come.
func (s *lockSubject) fairGhostSpecs() {
	It("are free for Go when the scores were lost, and Java is stuck (I11a)", func(ctx SpecContext) {
		if s.before("3.45.0") {
			Skip("its scripts fail then")
		}
		a, b, _ := s.holders(ctx, javapeer.Fair)
		hold, err := s.fairGo(0).LockFor(ctx, time.Hour)
		done(err)
		waits := b.StartLockLease(b.thread, time.Hour)
		s.joined(ctx, b, 1)
		s.waiting(ctx, b)
		done(look.Del(ctx, s.keys.Timeout).Err())
		done(look.Publish(ctx, s.keys.Channel+":"+b.owner, "0").Err())
		Eventually(func() []string { return s.queue(ctx) }).WithTimeout(patience).
			Should(Equal([]string{b.owner, b.owner}))
		done(hold.Unlock(ctx))
		_, err = waits.Wait(ctx)
		done(err)
		b.unlocks(ctx)
		no(a.TryLock(ctx, a.thread))
		h, ok, err := s.fairGo(0).TryLock(ctx, 0, 0)
		yes(ok, err)
		done(h.Unlock(ctx))
		s.free(ctx)
		yes(a.TryLock(ctx, a.thread))
		a.unlocks(ctx)
	})

	It("are refused to Java while a dead caller of Go has its place, and not longer", func(ctx SpecContext) {
		a, _, _ := s.holders(ctx, javapeer.Fair)
		hold, err := s.fairGo(0).LockFor(ctx, time.Hour)
		done(err)
		dead := "dead:" + strings.TrimPrefix(hold.Owner(), s.gos[0].c.ID()+":")
		const place = time.Second
		ends := float64(time.Now().Add(place).UnixMilli())
		done(look.RPush(ctx, s.keys.Queue, dead).Err())
		done(look.ZAdd(ctx, s.keys.Timeout, redis.Z{Score: ends, Member: dead}).Err())
		done(hold.Unlock(ctx))
		yes(a.TryLockWait(ctx, a.thread, patience))
		Expect(float64(time.Now().UnixMilli())).To(BeNumerically(">=", ends))
		a.unlocks(ctx)
		s.free(ctx)
	})
}

// outlastsInterrupted has Go wait behind a caller of Java that was interrupted and left its place.
func (s *lockSubject) outlastsInterrupted(ctx context.Context) {
	GinkgoHelper()
	ghost := s.holder(ctx, javapeer.Fair, s.javas[0].client)
	hold, err := s.fairGo(0).LockFor(ctx, time.Hour)
	done(err)
	waits := ghost.StartLockInterruptibly(ghost.thread)
	s.joined(ctx, ghost, 1)
	s.waiting(ctx, ghost)
	done(s.peer.Interrupt(ctx, ghost.thread))
	_, err = waits.Wait(ctx)
	Expect(err).To(HaveOccurred())
	Expect(s.queue(ctx)).To(Equal([]string{ghost.owner}))
	const place = 2 * time.Second
	ends := float64(time.Now().Add(place).UnixMilli())
	done(look.ZAdd(ctx, s.keys.Timeout, redis.Z{Score: ends, Member: ghost.owner}).Err())

	goes := s.fairWaitsGo(ctx, s.fairGo(1), 2)
	done(hold.Unlock(ctx))
	unlock := goes.gets(ctx)
	Expect(float64(time.Now().UnixMilli())).To(BeNumerically(">=", ends))
	unlock(ctx)
	s.free(ctx)
}
