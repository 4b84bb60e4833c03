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
	leaving := make(chan struct{})
	var callers sync.WaitGroup
	var mu sync.Mutex
	var goGot []javapeer.Hold // guarded by mu, as token is
	var token int64
	for _, lock := range locks {
		callers.Go(func() {
			defer GinkgoRecover()
			for {
				select {
				case <-leaving:
					return
				default:
				}
				hold, err := lock.Lock(ctx)
				done(err)
				span := counts(ctx, counter)
				mu.Lock()
				goGot = append(goGot, span)
				grows := kind != javapeer.Fenced || hold.Token() > token
				token = hold.Token()
				mu.Unlock()
				done(hold.Unlock(ctx))
				Expect(grows).To(BeTrue(), "token")
			}
		})
	}
	javaGot, err := java.Wait(ctx)
	close(leaving)
	callers.Wait()
	done(err)

	Expect(javaGot.Errors).To(BeEmpty())
	is(javaGot.Rounds + int64(len(goGot)))(look.Get(ctx, counter).Int64())
	apart(slices.Concat(javaGot.Holds, goGot))
	s.free(ctx)

	// How often each got it while both wanted it.
	first := []time.Time{javaGot.Holds[0].From, goGot[0].From}
	last := []time.Time{javaGot.Holds[len(javaGot.Holds)-1].To, goGot[len(goGot)-1].To}
	from, to := slices.MaxFunc(first, time.Time.Compare), slices.MinFunc(last, time.Time.Compare)
	ofJava, ofGo := during(javaGot.Holds, from, to), during(goGot, from, to)
	AddReportEntry("hand-overs", map[string]any{"Java": ofJava, "Go": ofGo, "for": to.Sub(from)})
	Expect(10*min(ofJava, ofGo)).To(BeNumerically(">=", ofJava+ofGo),
		"the lock was given to Go %d times, to Java %d times", ofGo, ofJava)
}

// counts adds 1 to a counter in two steps, under a lock. It returns when, by the wall clock and in whole µs,
// as Java does.
func counts(ctx context.Context, counter string) javapeer.Hold {
	GinkgoHelper()
	from := time.Now()
	n, err := look.Get(ctx, counter).Int64()
	if err != redis.Nil { // the first round
		done(err)
	}
	done(look.Set(ctx, counter, n+1, 0).Err())
	return javapeer.Hold{From: time.UnixMicro(from.UnixMicro()), To: time.UnixMicro(time.Now().UnixMicro())}
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

// during returns how many holds began within a time.
func during(holds []javapeer.Hold, from, to time.Time) (n int) {
	for _, h := range holds {
		if !h.From.Before(from) && h.From.Before(to) {
			n++
		}
	}
	return n
}
