package compat_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// crowdSpecs are the specs of a lock that many want all the time, in both languages. One
// process of Go could hand the lock on within it for ever; each of several could take it again
// before Java, which was notified, has asked. Measured with as many callers of each: Java gets
// 3 to 5 of 10 hand-overs beside one process, 2 to 4 beside three, which are quicker to ask than it.
func (s *lockSubject) crowdSpecs(kind javapeer.LockKind) {
	const each = 3 // callers
	for _, processes := range []int{1, each} {
		It(fmt.Sprintf("loses no update of crowds, and serves both of them: processes of Go: %d", processes),
			func(ctx SpecContext) {
				var locks []goLock
				for range processes {
					locks = append(locks, newGoLock(clientBeside(), kind, s.name))
				}
				s.crowds(ctx, kind, slices.Repeat(locks, each/processes))
			}, SpecTimeout(time.Minute))
	}
}

// crowds has a caller of each lock, and as many threads of Java, want it all the time.
func (s *lockSubject) crowds(ctx context.Context, kind javapeer.LockKind, locks []goLock) {
	const rounds = 60 // of each thread
	counter := redistest.Name(GinkgoT())
	java := s.peer.Lock(s.javas[0].client, s.name, kind).StartCrowd(javapeer.LockCrowdOptions{
		Threads: len(locks), Rounds: rounds, Counter: counter,
		Clients: []string{s.javas[0].client, s.javas[1].client},
	})
	golang := newGoCrowd(counter)
	for _, lock := range locks {
		golang.enter(ctx, lock)
	}
	javaGot, err := java.Wait(ctx)
	holds := golang.leave()
	done(err)

	Expect(javaGot.Errors).To(BeEmpty())
	total := javaGot.Rounds + int64(len(holds))
	is(total)(look.Get(ctx, counter).Int64())
	apart(slices.Concat(javaGot.Holds, spans(holds)))
	if kind == javapeer.Fenced {
		growing(holds)
	}
	s.free(ctx)

	from, to := overlap(javaGot.Holds, spans(holds))
	ofJava, ofGo := during(javaGot.Holds, from, to), during(spans(holds), from, to)
	AddReportEntry("hand-overs", map[string]any{"Java": ofJava, "Go": ofGo, "for": to.Sub(from)})
	Expect(10*min(ofJava, ofGo)).To(BeNumerically(">=", ofJava+ofGo),
		"the lock was given to Go %d times, to Java %d times", ofGo, ofJava)
}

// A goHold is a hold of a crowd, with its token.
type goHold struct {
	javapeer.Hold
	token int64
}

// A goCrowd is callers of Go that do what a crowd of the peer does, until they are
// stopped.
type goCrowd struct {
	counter string
	leaving chan struct{}
	callers sync.WaitGroup

	mu    sync.Mutex
	holds []goHold // guarded by mu
}

func newGoCrowd(counter string) *goCrowd {
	return &goCrowd{counter: counter, leaving: make(chan struct{})}
}

// enter has one more caller begin.
func (c *goCrowd) enter(ctx context.Context, lock goLock) {
	c.callers.Go(func() {
		defer GinkgoRecover()
		for {
			select {
			case <-c.leaving:
				return
			default:
				c.round(ctx, lock)
			}
		}
	})
}

// round writes the counter once, under the lock.
func (c *goCrowd) round(ctx context.Context, lock goLock) {
	hold, err := lock.Lock(ctx)
	done(err)
	from := time.Now()
	n, err := look.Get(ctx, c.counter).Int64()
	if err != redis.Nil { // the first round
		done(err)
	}
	done(look.Set(ctx, c.counter, n+1, 0).Err())
	to := time.Now()
	done(hold.Unlock(ctx))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds = append(c.holds, goHold{
		// In whole µs and by the wall clock, as those of Java.
		javapeer.Hold{From: time.UnixMicro(from.UnixMicro()), To: time.UnixMicro(to.UnixMicro())},
		hold.Token(),
	})
}

// leave ends the crowd and returns its holds in their order.
func (c *goCrowd) leave() []goHold {
	close(c.leaving)
	c.callers.Wait()
	slices.SortFunc(c.holds, func(a, b goHold) int { return a.From.Compare(b.From) })
	return c.holds
}

// spans returns holds without their tokens.
func spans(holds []goHold) []javapeer.Hold {
	all := make([]javapeer.Hold, len(holds))
	for i, h := range holds {
		all[i] = h.Hold
	}
	return all
}

// apart expects each hold to end before the next begins.
func apart(holds []javapeer.Hold) {
	GinkgoHelper()
	slices.SortFunc(holds, func(a, b javapeer.Hold) int {
		return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To))
	})
	for i := range holds[1:] {
		Expect(holds[i+1].From).NotTo(BeTemporally("<", holds[i].To), "hold %d of %d", i+1, len(holds))
	}
}

// growing expects each token to be greater than the one before it.
func growing(holds []goHold) {
	GinkgoHelper()
	for i := range holds[1:] {
		Expect(holds[i+1].token).To(BeNumerically(">", holds[i].token))
	}
}

// overlap returns the time in which both have holds.
func overlap(a, b []javapeer.Hold) (from, to time.Time) {
	GinkgoHelper()
	Expect(a).NotTo(BeEmpty())
	Expect(b).NotTo(BeEmpty())
	from, to = a[0].From, a[len(a)-1].To
	if b[0].From.After(from) {
		from = b[0].From
	}
	if last := b[len(b)-1].To; last.Before(to) {
		to = last
	}
	return from, to
}

// during returns how many holds began within a time.
func during(holds []javapeer.Hold, from, to time.Time) (n int) {
	for _, h := range holds {
		if !h.From.Before(from) && h.From.Before(to) {
			n++
		}
	}
	return n
}
