package compat_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
)

// startFairWaiter starts a process of Go that waits for a fair lock, and returns when the queue has
// that length.
func (s *lockSubject) startFairWaiter(ctx context.Context, length int) (kill func()) {
	GinkgoHelper()
	kill, _ = startProcess(ctx, javapeer.Fair, s.name)
	Eventually(func() []string { return s.queue(ctx) }).WithTimeout(patience).Should(HaveLen(length))
	return kill
}

// outlastsKilled has a waiter of Go and one of Java killed before two that live: the queue moves on when
// the places of the dead waiters end, and not before.
func (s *lockSubject) outlastsKilled(ctx context.Context) {
	GinkgoHelper()
	hold, err := s.fairGo(0).LockFor(ctx, time.Hour)
	done(err)
	killGo := s.startFairWaiter(ctx, 1)
	p, err := javapeer.Start(ctx, "", smallJVM...)
	done(err)
	DeferCleanup(p.Kill)
	_, err = p.Connect(ctx, s.name, server.Addr)
	done(err)
	const wait = 8 * time.Second
	_ = p.Lock(s.name, s.name, javapeer.Fair).StartTryLock(s.name, wait)
	Eventually(func() []string { return s.queue(ctx) }).WithTimeout(patience).Should(HaveLen(2))
	goes := s.fairWaitsGo(ctx, s.fairGo(1), 3)
	java := s.fairWaitsJava(ctx, 1, 4)
	queue := s.queue(ctx)
	killGo()
	p.Kill()
	last := max(s.fairPlace(ctx, queue[0]), s.fairPlace(ctx, queue[1]))
	Expect(last).To(BeNumerically("<=", placeOfGo+wait))
	const left = 2 * time.Second // of both places: as if the rest had passed
	ends := time.Now().Add(left)
	for _, dead := range queue[:2] {
		score := redis.Z{Score: float64(ends.UnixMilli()), Member: dead}
		done(look.ZAdd(ctx, s.keys.timeouts, score).Err())
	}
	done(hold.Unlock(ctx))
	// No message reports that a place has ended: a waiter of Go looks every 10 s.
	Eventually(func() map[string]string { return look.HGetAll(ctx, s.name).Val() }).
		WithTimeout(left + placeOfGo/3 + patience).Should(Equal(map[string]string{goes.owner: "1"}))
	Expect(time.Now()).To(BeTemporally(">", ends.Add(-time.Millisecond)))
	goes.gets(ctx)(ctx)
	java.gets(ctx)(ctx)
	s.free(ctx)
}
