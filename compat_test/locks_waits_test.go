package compat_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// What takes seconds of waiting is waited for at once: each has a lock of its own.
var _ = Describe("Long waits for locks beside Redisson "+newest.version, Label("locks"), func() {
	It("end when places, leases and clocks say so, and not before", func(ctx SpecContext) {
		sideBySide(
			func() { newest.anyLock().outlastsInterrupted(ctx) },
			func() { newest.anyLock().outlastsKilled(ctx) },
			func() { newest.anyLock().inheritsFrom(ctx, "Java") },
			func() { newest.anyLock().inheritsFrom(ctx, "Go") },
			func() { newest.anyLock().keepsItsPlace(ctx) },
			func() { newest.anyLock().regainsItsPlace(ctx) },
			func() { newest.anyLock().losesByClockOfJava(ctx) },
			func() { newest.anyLock().losesByClockOfRedis(ctx) },
		)
	}, SpecTimeout(2*time.Minute))
})

// anyLock returns the locks of a fresh name.
func (g *generation) anyLock() *lockSubject {
	s := &lockSubject{generation: g}
	s.named(redistest.Name(GinkgoT()))
	return s
}

// sideBySide runs parts of a spec that mostly wait, and returns when all have ended.
func sideBySide(parts ...func()) {
	var all sync.WaitGroup
	for _, part := range parts {
		all.Go(func() {
			defer GinkgoRecover()
			part()
		})
	}
	all.Wait()
}

// holdEnv has this program take a lock: the address of Redis, the kind and the name of the lock.
const holdEnv = "COMPAT_HOLDS_LOCK"

// shortWatchdog is the lease of holders that are killed.
const shortWatchdog = 3 * time.Second

// holdLock takes a lock, holds it until its stdin ends, and exits, if the process is to do that.
func holdLock() {
	words := strings.SplitN(os.Getenv(holdEnv), " ", 3)
	if len(words) < 3 {
		return
	}
	rdb := redis.NewClient(&redis.Options{Addr: words[0]})
	locks := rlock.New(rratelimiter.New(rdb), rlock.WithWatchdogTimeout(shortWatchdog))
	hold, err := newGoLock(locks, javapeer.LockKind(words[1]), words[2]).Lock(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(hold.Owner())
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// startProcess starts a process of Go that takes a lock, or waits for it.
func startProcess(ctx context.Context, kind javapeer.LockKind, name string) (kill func(), out *bufio.Reader) {
	GinkgoHelper()
	program, err := os.Executable()
	done(err)
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), holdEnv+"="+server.Addr+" "+string(kind)+" "+name)
	cmd.Stderr = GinkgoWriter
	_, err = cmd.StdinPipe() // stays open
	done(err)
	stdout, err := cmd.StdoutPipe()
	done(err)
	done(cmd.Start())
	kill = func() { _, _ = cmd.Process.Kill(), cmd.Wait() } // it was killed, so an error is expected
	DeferCleanup(kill)
	return kill, bufio.NewReader(stdout)
}

// startHolder starts a process of Go that holds a lock. It returns the owner.
func startHolder(ctx context.Context, name string) (kill func(), owner string) {
	GinkgoHelper()
	kill, out := startProcess(ctx, javapeer.Reentrant, name)
	line, err := out.ReadString('\n')
	done(err)
	return kill, strings.TrimSpace(line)
}

// startJavaHolder is startHolder for a JVM.
func startJavaHolder(ctx context.Context, name string) (kill func(), owner string) {
	GinkgoHelper()
	p, err := javapeer.Start(ctx, "", smallJVM...)
	done(err)
	DeferCleanup(p.Kill)
	_, err = p.Connect(ctx, name, server.Addr, javapeer.LockWatchdogTimeout(shortWatchdog))
	done(err)
	lock := p.Lock(name, name, javapeer.Reentrant)
	done(lock.Lock(ctx, name))
	owner, err = lock.Owner(ctx, name)
	done(err)
	return p.Kill, owner
}

// inheritsFrom: the lock of a holder that is killed goes to the other language when its lease is over,
// and no earlier.
func (s *lockSubject) inheritsFrom(ctx context.Context, dies string) {
	GinkgoHelper()
	start, successor := startJavaHolder, rival(s.goHolder(javapeer.Reentrant))
	if dies == "Go" {
		start, successor = startHolder, s.holder(ctx, javapeer.Reentrant, s.javas[0].client)
	}
	kill, owner := start(ctx, s.name)
	Expect(look.HGetAll(ctx, s.name).Val()).To(Equal(map[string]string{owner: "1"}))
	s.inherits(ctx, kill, successor)
}

// inherits expects a waiter to get the lock when its holder was killed and the lease is
// over.
func (s *lockSubject) inherits(ctx context.Context, kill func(), successor rival) {
	GinkgoHelper()
	gets := successor.waits(ctx, endless)
	s.awaits(ctx, successor)
	kill()
	before := time.Now()
	left, err := look.PTTL(ctx, s.name).Result()
	done(err)
	Expect(left).To(BeNumerically("<=", shortWatchdog))
	gets()
	Expect(time.Since(before)).To(BeNumerically(">", left-2*time.Millisecond)) // both are rounded
	s.has(ctx, successor, 1)
	successor.unlocks(ctx)
	s.free(ctx)
}

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
		done(look.ZAdd(ctx, s.keys.Timeout, score).Err())
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
