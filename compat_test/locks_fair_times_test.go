package compat_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
	"github.com/redisson-go/rratelimiter/rlock"
)

// placeOfGo is how long the place of a caller of Go lasts.
const placeOfGo = 30 * time.Second

// fairTimeSpecs is the spec of what Go does to the times of Java.
func (s *lockSubject) fairTimeSpecs() {
	It("lose only what Go has added to their times, when it leaves or wins (I11c)", func(ctx SpecContext) {
		whole := And(BeNumerically(">", defaultFairWait-patience), BeNumerically("<=", defaultFairWait))
		hold, err := s.fairGo(0).LockFor(ctx, time.Hour)
		done(err)
		leaving, leave := context.WithCancel(ctx)
		defer leave()
		left := make(chan error, 1)
		go func() {
			_, err := s.fairGo(1).Lock(leaving)
			left <- err
		}()
		Eventually(func() []string { return s.queue(ctx) }).WithTimeout(patience).Should(HaveLen(1))
		late := make(chan bool, 1)
		go func() {
			_, ok, _ := s.fairGo(0).TryLock(ctx, 500*time.Millisecond, 0)
			late <- ok
		}()
		first := s.holder(ctx, javapeer.Fair, s.javas[0].client)
		waits := first.StartLockLease(first.thread, time.Hour)
		listens(ctx, s.keys.Channel+":"+first.owner, 1)
		Expect(s.fairPlace(ctx, first.owner)).To(BeNumerically("<=", defaultFairWait+placeOfGo))
		Expect(<-late).To(BeFalse())
		leave()
		Expect(<-left).To(MatchError(context.Canceled))
		Eventually(func() []string { return s.queue(ctx) }).WithTimeout(patience).
			Should(Equal([]string{first.owner}))
		Expect(s.fairPlace(ctx, first.owner)).To(whole)

		goes := s.fairWaitsGo(ctx, s.fairGo(1), 2)
		second := s.fairWaitsJava(ctx, 1, 3)
		score := s.score(ctx, second.owner)
		done(hold.Unlock(ctx))
		_, err = waits.Wait(ctx)
		done(err)
		score -= defaultFairWait.Milliseconds() // Java takes off what it had added
		Expect(s.score(ctx, second.owner)).To(Equal(score))
		first.unlocks(ctx)
		unlock := goes.gets(ctx)
		Expect(s.fairPlace(ctx, second.owner)).To(whole)
		unlock(ctx)
		second.gets(ctx)(ctx)
		s.free(ctx)
	})
}

// timesOut has calls of Java time out, each of which takes off 5 minutes more than it has added, before a
// caller of Go. It returns how much of its place that caller has lost.
func (s *lockSubject) timesOut(
	ctx context.Context, calls int,
) (hold *rlock.Hold, goes fairWaiter, took time.Duration) {
	GinkgoHelper()
	hold, err := s.fairGo(0).Lock(ctx)
	done(err)
	var waits []*javapeer.Started[bool]
	for i := range calls {
		h := s.holder(ctx, javapeer.Fair, s.javas[0].client)
		waits = append(waits, h.StartTryLockAsync(h.thread, 5*time.Second, time.Hour))
		s.joined(ctx, h, i+1)
	}
	goes = s.fairWaitsGo(ctx, s.fairGo(1), calls+1)
	before := s.score(ctx, goes.owner)
	for _, w := range waits {
		no(w.Wait(ctx))
	}
	Expect(s.queue(ctx)).To(Equal([]string{goes.owner}))
	return hold, goes, time.Duration(before-s.score(ctx, goes.owner)) * time.Millisecond
}

// keepsItsPlace: one such call leaves Go its place, although Java asks (I11c).
func (s *lockSubject) keepsItsPlace(ctx context.Context) {
	GinkgoHelper()
	hold, goes, took := s.timesOut(ctx, 1)
	Expect(took).To(Equal(defaultFairWait))
	other := s.holder(ctx, javapeer.Fair, s.javas[1].client)
	no(other.TryLock(ctx, other.thread))
	Expect(s.queue(ctx)).To(Equal([]string{goes.owner}))
	done(hold.Unlock(ctx))
	goes.gets(ctx)(ctx)
	s.free(ctx)
}

// regainsItsPlace: several such calls take Go its place, and Go takes it again (I11c).
func (s *lockSubject) regainsItsPlace(ctx context.Context) {
	GinkgoHelper()
	hold, goes, took := s.timesOut(ctx, 3)
	Expect(took).To(Equal(3 * defaultFairWait))
	other := s.holder(ctx, javapeer.Fair, s.javas[1].client)
	no(other.TryLock(ctx, other.thread))
	Expect(s.queue(ctx)).To(BeEmpty())
	Eventually(func() []string { return s.queue(ctx) }).WithTimeout(patience).
		Should(Equal([]string{goes.owner}))
	done(hold.Unlock(ctx))
	goes.gets(ctx)(ctx)
	s.free(ctx)
}

// A fairClock is a server whose clock is wrong, and a fair lock there.
type fairClock struct {
	*redis.Client
	java       javaHolder
	one, other *rlock.FairLock
	keys       wire.LockKeys
}

// newFairClock returns one whose clock is off by off, from all callers.
func (s *lockSubject) newFairClock(ctx context.Context, off time.Duration) fairClock {
	GinkgoHelper()
	server, set := redistest.StartClocked(GinkgoT())
	set(off)
	client := redistest.Name(GinkgoT())
	_, err := s.peer.Connect(ctx, client, server.Addr)
	done(err)
	DeferCleanup(func(ctx SpecContext) { done(s.peer.Disconnect(ctx, client)) })
	limiters := rratelimiter.New(server.Client(GinkgoT()))
	DeferCleanup(limiters.Close)
	return fairClock{
		server.Admin(), s.holder(ctx, javapeer.Fair, client), rlock.New(limiters).FairLock(s.name),
		rlock.New(limiters).FairLock(s.name), s.keys,
	}
}

func (c fairClock) queue(ctx context.Context) []string {
	return c.LRange(ctx, c.keys.Queue, 0, -1).Val()
}

// ends returns when the place of the first in the queue ends.
func (c fairClock) ends(ctx context.Context) time.Time {
	GinkgoHelper()
	score, err := c.ZScore(ctx, c.keys.Timeout, c.queue(ctx)[0]).Result()
	done(err)
	return time.UnixMilli(int64(score))
}

// clockOff is how much the clock of Redis differs from that of all callers.
const clockOff = 1000 * time.Second

// losesByClockOfJava: a place of Go ends by the clock of Redis, and by that of Java, which asks (I11b).
func (s *lockSubject) losesByClockOfJava(ctx context.Context) {
	GinkgoHelper()
	c := s.newFairClock(ctx, -clockOff)
	hold, err := c.one.LockFor(ctx, time.Hour)
	done(err)
	held := make(chan *rlock.Hold, 1)
	go func() {
		defer GinkgoRecover()
		h, err := c.other.Lock(ctx)
		done(err)
		held <- h
	}()
	Eventually(func() []string { return c.queue(ctx) }).WithTimeout(patience).Should(HaveLen(1))
	queue := c.queue(ctx)
	now, err := c.Time(ctx).Result()
	done(err)
	Expect(c.ends(ctx)).To(BeTemporally(">", now))
	Expect(c.ends(ctx)).To(BeTemporally("<=", now.Add(placeOfGo)))
	Expect(c.ends(ctx)).To(BeTemporally("<", time.Now()))
	_, ok, err := c.one.TryLock(ctx, 0, 0)
	no(ok, err)
	Expect(c.queue(ctx)).To(Equal(queue))
	no(c.java.TryLock(ctx, c.java.thread))
	Expect(c.queue(ctx)).To(BeEmpty())
	Eventually(func() []string { return c.queue(ctx) }).WithTimeout(patience).Should(Equal(queue))
	done(hold.Unlock(ctx))
	var h *rlock.Hold
	Eventually(ctx, held).WithTimeout(patience).Should(Receive(&h))
	done(h.Unlock(ctx))
}

// losesByClockOfRedis: a place of Java ends by the clock of Redis when Go asks (I11b).
func (s *lockSubject) losesByClockOfRedis(ctx context.Context) {
	GinkgoHelper()
	c := s.newFairClock(ctx, clockOff)
	const lease = 5 * time.Second
	_, err := c.one.LockFor(ctx, lease)
	done(err)
	waits := c.java.StartLockLease(c.java.thread, time.Hour)
	s.waiting(ctx, c.java)
	Expect(c.queue(ctx)).To(Equal([]string{c.java.owner}))
	Expect(c.ends(ctx)).To(BeTemporally("~", time.Now().Add(defaultFairWait+lease), patience))
	_, ok, err := c.one.TryLock(ctx, 0, 0)
	no(ok, err)
	Expect(c.queue(ctx)).To(BeEmpty())
	_, err = waits.Wait(ctx) // when the lease is over
	done(err)
	c.java.unlocks(ctx)
}
