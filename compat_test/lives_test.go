package compat_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

var _ = Describe("What Java leaves for an acquire of Go to put right", func() {
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
			if !errors.Is(err, rratelimiter.ErrNoAnswer) { // of a busy machine
				done(err)
			}
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
