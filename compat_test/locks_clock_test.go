package compat_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// A step of the server's clock forward ends holds, as if their leases had expired; a step back makes them
// last longer, until they are renewed. Go and Java agree on both.
var _ = Describe("Locks of Go and Java while the server's clock is set", Label("locks"), func() {
	const watchdog = 1500 * time.Millisecond
	for _, kind := range []javapeer.LockKind{javapeer.Reentrant, javapeer.Fenced, javapeer.Fair} {
		It("have one holder: "+string(kind), func(ctx SpecContext) {
			server, set := redistest.StartClocked(GinkgoT())
			name := redistest.Name(GinkgoT())
			_, err := newest.peer.Connect(ctx, name, server.Addr, javapeer.LockWatchdogTimeout(watchdog))
			done(err)
			DeferCleanup(func() { _ = newest.peer.Disconnect(context.Background(), name) })
			java, thread := newest.peer.Lock(name, name, kind), name
			limiters := rratelimiter.New(server.Client(GinkgoT()))
			DeferCleanup(limiters.Close)
			c := rlock.New(limiters, rlock.WithWatchdogTimeout(watchdog))
			ours := map[javapeer.LockKind]rlock.Locker{
				javapeer.Reentrant: c.Lock(name), javapeer.Fenced: c.FencedLock(name),
				javapeer.Fair: c.FairLock(name),
			}[kind]
			refused := func() {
				GinkgoHelper()
				_, got, err := ours.TryLock(ctx, 0, 0)
				done(err)
				Expect(got).To(BeFalse())
			}

			By("setting it back while Java holds the lock")
			done(java.Lock(ctx, thread))
			set(-time.Hour)
			refused()
			Eventually(ctx, func() (time.Duration, error) { // a renewal
				return server.Admin().PTTL(ctx, name).Result()
			}).Should(BeNumerically("<=", watchdog))
			refused()
			done(java.Unlock(ctx, thread))
			first, err := ours.Lock(ctx)
			done(err)

			By("setting it forward while Go holds the lock")
			waits := java.StartLock(thread)
			set(0)
			Eventually(ctx, first.Context().Done()).Should(BeClosed())
			_, err = waits.Wait(ctx)
			done(err)
			Expect(first.Unlock(ctx)).To(MatchError(rlock.ErrLost))
			refused()

			By("setting it forward while Java holds the lock")
			set(time.Hour)
			second, err := ours.Lock(ctx)
			done(err)
			Expect(java.Unlock(ctx, thread)).NotTo(Succeed())
			Expect(second.Token()).To(Or(Equal(int64(0)), BeNumerically(">", first.Token())))
			Expect(java.TryLock(ctx, thread)).To(BeFalse())
			done(second.Unlock(ctx))
			Expect(java.TryLock(ctx, thread)).To(BeTrue())
			done(java.Unlock(ctx, thread))
		}, SpecTimeout(time.Minute))
	}
})
