package compat_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
)

// queue returns the owners that wait, in their order.
func (s *lockSubject) queue(ctx context.Context) []string {
	GinkgoHelper()
	queue, err := look.LRange(ctx, s.keys.queue, 0, -1).Result()
	done(err)
	return queue
}

// score returns when the place of an owner ends, in ms.
func (s *lockSubject) score(ctx context.Context, owner string) int64 {
	GinkgoHelper()
	score, err := look.ZScore(ctx, s.keys.timeouts, owner).Result()
	done(err)
	return int64(score)
}

// joined waits until a thread is the last of so many in the queue, and listens.
func (s *lockSubject) joined(ctx context.Context, h javaHolder, length int) {
	GinkgoHelper()
	listens(ctx, s.keys.channel+":"+h.owner, 1)
	Expect(s.queue(ctx)).To(And(HaveLen(length), HaveEach(Not(BeEmpty()))))
	Expect(s.queue(ctx)[length-1]).To(Equal(h.owner))
	is(int64(length))(look.ZCard(ctx, s.keys.timeouts).Result())
}

// ends returns when the lease ends, in ms.
func (s *lockSubject) ends(ctx context.Context) int64 {
	GinkgoHelper()
	ms, err := look.Do(ctx, "PTTL", s.name).Int64()
	done(err)
	return time.Now().UnixMilli() + ms
}

// isAfter expects a score that Java has computed by its clock, a moment ago.
func isAfter(score, ends int64, wait time.Duration) {
	GinkgoHelper()
	Expect(score - ends).To(BeNumerically("~", wait.Milliseconds(), 5000))
}

// queueSpecs are about the queue of a fair lock.
func (s *lockSubject) queueSpecs() {
	It("serve in the order of a list, and keep each place until a score", func(ctx SpecContext) {
		a, b, c := s.holders(ctx, javapeer.Fair)
		d := s.holder(ctx, javapeer.Fair, s.javas[0].client)
		a.locks(ctx)
		waits := []interface {
			Wait(context.Context) (bool, error)
		}{b.StartTryLockLease(b.thread, 100*time.Second, time.Hour)}
		s.joined(ctx, b, 1)
		waits = append(waits, c.StartTryLockLease(c.thread, 200*time.Second, time.Hour))
		s.joined(ctx, c, 2)
		last := d.StartLockLease(d.thread, time.Hour)
		s.joined(ctx, d, 3)
		first := s.score(ctx, b.owner)
		isAfter(first, s.ends(ctx), 100*time.Second)
		Expect(s.score(ctx, c.owner) - first).To(Equal(int64(200_000)))
		Expect(s.score(ctx, d.owner) - s.score(ctx, c.owner)).To(Equal(defaultFairWait.Milliseconds()))

		// Each winner takes the time it had added off the others.
		e := newEar(ctx, s.keys.channel+"*")
		a.unlocks(ctx)
		yes(waits[0].Wait(ctx))
		Expect(e.heard(ctx)).To(Equal([]string{s.keys.channel + ":" + b.owner + " 0"}))
		s.held(ctx, b, 1)
		Expect(s.queue(ctx)).To(Equal([]string{c.owner, d.owner}))
		Expect(s.score(ctx, c.owner)).To(Equal(first + 100_000))
		b.unlocks(ctx)
		yes(waits[1].Wait(ctx))
		Expect(s.score(ctx, d.owner)).To(Equal(first + 200_000))
		c.unlocks(ctx)
		_, err := last.Wait(ctx)
		done(err)
		is(0)(look.Exists(ctx, s.keys.queue, s.keys.timeouts).Result())
		d.unlocks(ctx)
		s.free(ctx)
	})
}
