package compat_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// fairWaitEnv makes this program wait for a fair lock until it is killed. It holds the address of Redis
// and the name of the lock.
const fairWaitEnv = "COMPAT_WAITS_FOR_FAIR_LOCK"

func init() {
	addr, name, ok := strings.Cut(os.Getenv(fairWaitEnv), " ")
	if !ok {
		return
	}
	locks := rlock.New(rratelimiter.New(redis.NewClient(&redis.Options{Addr: addr})))
	_, err := locks.FairLock(name).Lock(context.Background())
	fmt.Fprintln(os.Stderr, "it was not killed:", err)
	os.Exit(1)
}

// startFairWaiter starts a process of Go that waits for a fair lock, and returns when the queue has
// that length.
func (s *lockSubject) startFairWaiter(ctx context.Context, length int) (kill func()) {
	GinkgoHelper()
	program, err := os.Executable()
	done(err)
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), fairWaitEnv+"="+server.Addr+" "+s.name)
	cmd.Stderr = GinkgoWriter
	done(cmd.Start())
	kill = func() { _, _ = cmd.Process.Kill(), cmd.Wait() }
	DeferCleanup(kill)
	Eventually(func() []string { return s.queue(ctx) }).WithTimeout(patience).Should(HaveLen(length))
	return kill
}

// A waiter of Go and one of Java are killed before two that live. The queue moves on when the places of
// the dead waiters end.
var _ = Describe("Waiters for a fair lock that are killed", Label("locks", "slow"), func() {
	It("block the queue until their places end, and no longer", func(ctx SpecContext) {
		s := &lockSubject{generation: newest}
		s.named(redistest.Name(GinkgoT()))
		hold, err := s.fairGo(0).LockFor(ctx, time.Hour)
		done(err)
		killGo := s.startFairWaiter(ctx, 1)
		p, err := javapeer.Start(ctx, "", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
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
		first, second := s.fairPlace(ctx, queue[0]), s.fairPlace(ctx, queue[1])
		start := time.Now()
		done(hold.Unlock(ctx))
		Expect(max(first, second)).To(BeNumerically("<=", placeOfGo+wait))
		// No message tells that a place has ended: a waiter of Go looks every 10 s.
		Eventually(func() map[string]string { return look.HGetAll(ctx, s.name).Val() }).
			WithTimeout(max(first, second) + placeOfGo/3 + patience).
			Should(Equal(map[string]string{goes.owner: "1"}))
		took := time.Since(start)
		Expect(took).To(BeNumerically(">", max(first, second)-time.Second))
		GinkgoWriter.Println("places", first, second, "took", took)
		goes.gets(ctx)(ctx)
		java.gets(ctx)(ctx)
		s.free(ctx)
	}, SpecTimeout(2*time.Minute))
})
