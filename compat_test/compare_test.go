package compat_test

import (
	"context"
	"fmt"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter"
)

var _ = Describe("Comparison by machine", Ordered, ContinueOnFailure, func() {
	var a *arena
	BeforeAll(func(ctx SpecContext) { a = newArena(ctx) }, NodeTimeout(time.Minute))

	It("finds the same on a name of Java and on one of Go", func(ctx SpecContext) {
		t := &tally{}
		a.agree(ctx, firstSeed(), 2000, false, twinGame(theJudge, t))
		AddReportEntry(t.String())
	})

	It("finds nothing wrong where both take turns on one name", func(ctx SpecContext) {
		t := &tally{}
		a.agree(ctx, firstSeed(), 1000, true, mixedGame(theJudge, t))
		AddReportEntry(t.String())
	})

	DescribeTable("finds nothing any more where it once did, on one name:",
		func(ctx SpecContext, steps ...step) {
			w := a.worker(0)
			defer w.close()
			d, err := mixedGame(theJudge, &tally{})(ctx, w, steps)
			Expect(err).NotTo(HaveOccurred())
			if d != nil {
				Fail(d.String())
			}
		},
		Entry("a request above a rate that somebody has lowered, then one below it",
			step{op: trySetRate, limit: config(perClient, 10, 5*minute)},
			step{op: tryAcquire, permits: 6},
			step{op: updateRate, limit: config(perClient, 5, 5*minute), java: true},
			step{op: tryAcquire, permits: 6},
			step{op: availablePermits},
			step{op: tryAcquire, permits: 4}),
	)

	DescribeTable("finds and shrinks what is wrong on purpose:",
		func(ctx SpecContext, mixed bool, says string, spoil func(w *worker)) {
			spoilt := func(play game) game {
				return func(ctx context.Context, w *worker, steps []step) (*disagreement, error) {
					clean := *w
					spoil(&clean)
					return play(ctx, &clean, steps)
				}
			}
			play := spoilt(twinGame(theJudge, &tally{}))
			if mixed {
				play = spoilt(mixedGame(theJudge, &tally{}))
			}
			f, err := a.search(ctx, firstSeed(), 1000, mixed, play)
			Expect(err).NotTo(HaveOccurred())
			Expect(f).NotTo(BeNil())
			f = a.shrink(ctx, f, play)
			Expect(f.says).To(ContainSubstring(says), f.String())
			Expect(len(f.steps)).To(BeNumerically("<=", 4), f.String())
		},
		Entry("a Go that finds one permit where none is", false, "Go does not do what the model says", func(w *worker) {
			w.goes = spoiltSide{w.goes, func(l limiter, _ string) limiter { return permitFromNowhere{l} }}
		}),
		Entry("a Go that releases as Java does (B1)", false, "Go does not do what the model says", func(w *worker) {
			w.goes = spoiltSide{w.goes, func(l limiter, name string) limiter { return releaseOfJava{l, w.java.limiter(name)} }}
		}),
		Entry("a Java that refuses what is there", false, "Java does what is not known of it", func(w *worker) {
			w.java = spoiltSide{w.java, func(l limiter, _ string) limiter { return refusal{l} }}
		}),
		Entry("a Go that grants what is not there, on one name", true, "Go does not do what the model says", func(w *worker) {
			w.goes = spoiltSide{w.goes, func(l limiter, _ string) limiter { return generous{l} }}
		}),
	)

	if most := os.Getenv("COMPARE_SOAK"); most != "" {
		It("soaks", func(ctx SpecContext) {
			d, err := time.ParseDuration(most)
			Expect(err).NotTo(HaveOccurred(), "COMPARE_SOAK")
			a.soak(ctx, d)
		}, NodeTimeout(10_000*time.Hour))
	}
})

// soak plays until something is found, or most has passed unless it is 0, and
// says how far it is.
func (a *arena) soak(ctx context.Context, most time.Duration) {
	GinkgoHelper()
	twins, mixed := &tally{}, &tally{}
	start := time.Now()
	for seed := firstSeed(); most == 0 || time.Since(start) < most; seed += 2000 {
		a.agree(ctx, seed, 1000, false, twinGame(theJudge, twins))
		a.agree(ctx, seed+1000, 1000, true, mixedGame(theJudge, mixed))
		fmt.Printf("\n%v\non two names: %v\non one name:  %v\n", time.Since(start).Round(time.Second), twins, mixed)
	}
}

// A spoiltSide is one of which something is wrong on purpose.
type spoiltSide struct {
	side
	spoil func(l limiter, name string) limiter
}

func (s spoiltSide) limiter(name string) limiter { return s.spoil(s.side.limiter(name), name) }

type permitFromNowhere struct{ limiter }

func (l permitFromNowhere) AvailablePermits(ctx context.Context) (int64, error) {
	n, err := l.limiter.AvailablePermits(ctx)
	if n == 0 && err == nil {
		n = 1
	}
	return n, err
}

type releaseOfJava struct {
	limiter
	java limiter
}

func (l releaseOfJava) Release(ctx context.Context, permits int64) error {
	c, err := l.limiter.Config(ctx)
	if err != nil || c.Type == rratelimiter.PerClient || permits < 1 {
		return l.limiter.Release(ctx, permits)
	}
	return l.java.Release(ctx, permits)
}

type refusal struct{ limiter }

func (l refusal) TryAcquire(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
	ok, err := l.limiter.TryAcquire(ctx, permits, timeout)
	return ok && permits != 1, err
}

type generous struct{ limiter }

func (l generous) TryAcquire(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
	ok, err := l.limiter.TryAcquire(ctx, permits, timeout)
	return ok || err == nil, err
}
