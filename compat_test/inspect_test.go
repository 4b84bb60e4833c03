package compat_test

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

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
