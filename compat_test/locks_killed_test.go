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

// holdEnv has this program hold a lock: the address of Redis, and the name of the lock.
const holdEnv = "COMPAT_HOLDS_LOCK"

// shortWatchdog is the lease of those who are killed.
const shortWatchdog = 3 * time.Second

// holdLock holds a lock until its stdin ends, and exits, if the process is to do that.
func holdLock() {
	addr, name, ok := strings.Cut(os.Getenv(holdEnv), " ")
	if !ok {
		return
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	locks := rlock.New(rratelimiter.New(rdb), rlock.WithWatchdogTimeout(shortWatchdog))
	hold, err := locks.Lock(name).Lock(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(hold.Owner())
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// startHolder starts a process of Go that holds a lock. It returns the owner.
func startHolder(ctx context.Context, name string) (kill func(), owner string) {
	GinkgoHelper()
	program, err := os.Executable()
	done(err)
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), holdEnv+"="+server.Addr+" "+name)
	_, err = cmd.StdinPipe() // stays open
	done(err)
	out, err := cmd.StdoutPipe()
	done(err)
	done(cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed, so an error is expected
	}
	DeferCleanup(kill)
	done(err)
	return kill, strings.TrimSpace(line)
}

// startJavaHolder is startHolder for a JVM.
func startJavaHolder(ctx context.Context, name string) (kill func(), owner string) {
	GinkgoHelper()
	p, err := javapeer.Start(ctx, "", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
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

// Who is killed has its lock until its lease has run out, and no longer.
var _ = Describe("A process that is killed", Label("locks"), func() {
	It("leaves its lock to the other language when its lease is over", func(ctx SpecContext) {
		var both sync.WaitGroup
		defer both.Wait()
		for _, dies := range []string{"Java", "Go"} {
			s := &lockSubject{generation: newest}
			s.named(redistest.Name(GinkgoT()))
			start, heir := startJavaHolder, rival(s.goHolder(javapeer.Reentrant))
			if dies == "Go" {
				start, heir = startHolder, s.holder(ctx, javapeer.Reentrant, s.javas[0].client)
			}
			kill, owner := start(ctx, s.name)
			Expect(look.HGetAll(ctx, s.name).Val()).To(Equal(map[string]string{owner: "1"}))
			both.Go(func() {
				defer GinkgoRecover()
				s.inherits(ctx, kill, heir)
			})
		}
	}, SpecTimeout(time.Minute))
})

// inherits expects a waiter to get the lock when its holder was killed and the lease is
// over.
func (s *lockSubject) inherits(ctx context.Context, kill func(), heir rival) {
	GinkgoHelper()
	gets := heir.waits(ctx, endless)
	s.awaits(ctx, heir)
	kill()
	before := time.Now()
	left, err := look.PTTL(ctx, s.name).Result()
	done(err)
	Expect(left).To(BeNumerically("<=", shortWatchdog))
	gets()
	Expect(time.Since(before)).To(BeNumerically(">", left-2*time.Millisecond)) // both are rounded
	s.has(ctx, heir, 1)
	heir.unlocks(ctx)
	s.free(ctx)
}
