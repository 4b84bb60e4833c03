package compat_test

import (
	"context"
	"errors"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/inspect"
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
			_, err := java.Hammer(ctx, o)
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

var _ = Describe("A clock of Java that is an interval ahead", func() {
	It("removes the records of Go (B5)", func(ctx SpecContext) {
		server, set := redistest.StartClocked(GinkgoT())
		set(-minute)
		name := redistest.Name(GinkgoT())
		_, err := peer.Connect(ctx, name, server.Addr)
		done(err)
		DeferCleanup(func() { _ = peer.Disconnect(context.Background(), name) })
		c := rratelimiter.New(server.Client(GinkgoT()))
		DeferCleanup(c.Close)
		java, l := peer.Limiter(name, name), c.RateLimiter(name)
		done(l.SetRate(ctx, rratelimiter.Overall, 5, minute))
		yes(l.TryAcquire(ctx, 5, 0))
		no(l.TryAcquire(ctx, 1, 0))
		yes(java.TryAcquire(ctx, 5, 0))
	})
})

// Other faults that Redisson drives a limiter into, and that inspect then finds by what is left in Redis, are
// rows of testdata/beside.txt.
var _ = Describe("What is wrong with a limiter", func() {
	It("is found after Java has sent a request twice (B4)", func(ctx SpecContext) {
		proxy := redistest.StartProxy(GinkgoT(), server.Addr)
		name, client := redistest.Name(GinkgoT()), "re-sends"
		_, err := peer.Connect(ctx, client, proxy.Addr,
			javapeer.Timeout(500*time.Millisecond), javapeer.RetryAttempts(3))
		done(err)
		DeferCleanup(func(ctx SpecContext) { done(peer.Disconnect(ctx, client)) })
		java := peer.Limiter(client, name)
		yes(java.TrySetRate(ctx, config(overall, 10, minute)))
		yes(java.TryAcquire(ctx, 1, 0)) // the server knows the script
		proxy.SwallowReplyTo(1, func(args []string) bool {
			return strings.HasPrefix(strings.ToLower(args[0]), "eval") && len(args) > 8
		})
		yes(java.TryAcquire(ctx, 3, 0))
		Expect(proxy.Swallowed()).To(BeEquivalentTo(1))
		finds(ctx, name, "B4: 3 permits are in no record")
		_, err = gos[0].c.RateLimiter(name).Repair(ctx)
		done(err)
		finds(ctx, name, "")
	})
})

// finds expects one finding about a limiter, or none: its fault, and a part of what is wrong.
func finds(ctx SpecContext, name, want string) {
	GinkgoHelper()
	l, err := inspect.Read(ctx, look, name, inspect.Many)
	done(err)
	if want == "" {
		Expect(l.Findings).To(BeEmpty())
		return
	}
	Expect(l.Holds()).To(BeFalse(), "%+v", l)
	Expect(l.Findings).To(HaveLen(1))
	Expect(l.Findings[0].Fault + ": " + l.Findings[0].What).To(ContainSubstring(want))
}
