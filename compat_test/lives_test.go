package compat_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

var _ = Describe("What Java leaves for an acquire of Go to put right", func() {
	It("is a value without a time to live", func(ctx SpecContext) {
		name, keep := redistest.Name(GinkgoT()), time.Minute
		l := gos[0].c.RateLimiter(name).WithRate(5, 100*time.Millisecond, rratelimiter.WithKeepAlive(keep))
		java, k := javas[0].limiter(name), keysOf(name)
		yes(l.TryAcquire(ctx, 1, 0))
		// When the record has expired, availablePermits writes the value.
		Eventually(ctx, func() time.Duration {
			_, err := java.AvailablePermits(ctx)
			done(err)
			return look.PTTL(ctx, k.value).Val()
		}).Should(Equal(time.Duration(-1)))
		yes(l.TryAcquire(ctx, 1, 0))
		for _, key := range []string{name, k.value, k.permits} {
			Expect(look.PTTL(ctx, key).Val()).To(BeNumerically("~", keep, keep/8), key)
		}
	})

	It("is a value that lacks permits, while Java's clock is ahead", Label(thorough), func(ctx SpecContext) {
		server, set := redistest.StartClocked(GinkgoT())
		set(-300 * time.Millisecond)
		name := redistest.Name(GinkgoT())
		_, err := newest.peer.Connect(ctx, name, server.Addr)
		done(err)
		DeferCleanup(func() { _ = newest.peer.Disconnect(context.Background(), name) })
		c := rratelimiter.New(server.Client(GinkgoT()))
		DeferCleanup(c.Close)
		java, l, k := newest.peer.Limiter(name, name), c.RateLimiter(name), keysOf(name)
		yes(java.TrySetRate(ctx, config(overall, 100, time.Second)))
		yes(java.TryAcquire(ctx, 1, 0))
		done(server.Admin().DecrBy(ctx, k.value, 40).Err()) // as after a request that was charged twice

		hammered := make(chan error, 1)
		go func() {
			o := javapeer.HammerOptions{Threads: 2, Duration: 25 * time.Second, Pause: 5 * time.Millisecond}
			_, _, err := java.Hammer(ctx, o)
			hammered <- err
		}()
		for running := true; running; {
			_, err := l.TryAcquire(ctx, 1, 20*time.Millisecond)
			done(err)
			select {
			case err := <-hammered:
				done(err)
				running = false
			default:
			}
		}
		value, err := server.Admin().Get(ctx, k.value).Int64()
		done(err)
		members, err := server.Admin().ZRange(ctx, k.permits, 0, -1).Result()
		done(err)
		for _, m := range members {
			n, err := wire.Permits(m)
			done(err)
			value += n
		}
		Expect(value).To(Equal(int64(100)))
	})
})
