package compat_test

import (
	"context"
	"fmt"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/compare"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

const (
	// separately is how many sequences are played on two names.
	separately = 800
	// together is how many are played on one name: half as many, as Java and Go
	// share their steps.
	together = 400
)

var _ = Describe("Comparison by machine", Ordered, ContinueOnFailure, func() {
	var r *compare.Runner
	BeforeAll(func(ctx SpecContext) { r = compare.Start(ctx, GinkgoT(), peer) }, NodeTimeout(time.Minute))

	It("finds the same on a name of Java and on one of Go", func(ctx SpecContext) {
		t := &compare.Tally{}
		findNothing(ctx, r, compare.SeparateRuns(t), firstSeed(), redistest.Rounds(GinkgoT(), separately))
		AddReportEntry(t.String())
	})

	It("finds nothing wrong where both take turns on one name", func(ctx SpecContext) {
		t := &compare.Tally{}
		findNothing(ctx, r, compare.SharedRuns(t), firstSeed(), redistest.Rounds(GinkgoT(), together))
		AddReportEntry(t.String())
	})

	DescribeTable("finds nothing any more where it once did, on one name:",
		func(ctx SpecContext, steps ...compare.Step) {
			d, err := r.Play(ctx, compare.SharedRuns(&compare.Tally{}), steps)
			done(err)
			if d != nil {
				Fail(d.String())
			}
		},
		Entry("a request above a rate that somebody has lowered, then one below it",
			compare.Step{Op: compare.TrySetRate, Limit: config(perClient, 10, 5*minute)},
			compare.Step{Op: compare.TryAcquire, Permits: 6},
			compare.Step{Op: compare.UpdateRate, Limit: config(perClient, 5, 5*minute), Java: true},
			compare.Step{Op: compare.TryAcquire, Permits: 6},
			compare.Step{Op: compare.AvailablePermits},
			compare.Step{Op: compare.TryAcquire, Permits: 4}),
	)

	DescribeTable("finds and shrinks what is wrong on purpose:",
		func(ctx SpecContext, shared bool, says string, spoil func(s *compare.Sides)) {
			runs := compare.SeparateRuns(&compare.Tally{})
			if shared {
				runs = compare.SharedRuns(&compare.Tally{})
			}
			runs = runs.Spoiled(spoil)
			f, err := r.Search(ctx, runs, firstSeed(), 1000)
			done(err)
			Expect(f).NotTo(BeNil())
			f = r.Shrink(ctx, runs, f)
			Expect(f.Says).To(ContainSubstring(says), f.String())
			Expect(len(f.Steps)).To(BeNumerically("<=", 4), f.String())
		},
		Entry("a Go that finds one permit where none is", false, goIsWrong, findsOnePermit),
		Entry("a Go that releases as Java does (B1)", false, goIsWrong, releasesAsJava),
		Entry("a Java that refuses what is there", false, javaIsUnknown, refusesWhatIsThere),
		Entry("a Go that grants what is not there, on one name", true, goIsWrong, grantsWhatIsNotThere),
	)

	if most := os.Getenv("COMPARE_SOAK"); most != "" {
		It("soaks", func(ctx SpecContext) {
			d, err := time.ParseDuration(most)
			Expect(err).NotTo(HaveOccurred(), "COMPARE_SOAK")
			soak(ctx, r, d)
		}, NodeTimeout(10_000*time.Hour))
	}
})

func firstSeed() uint64 {
	GinkgoHelper()
	seed, err := compare.FirstSeed()
	done(err)
	return seed
}

// findNothing expects that many sequences find nothing.
func findNothing(ctx context.Context, r *compare.Runner, runs compare.Runs, seed uint64, many int) {
	GinkgoHelper()
	f, err := r.Search(ctx, runs, seed, many)
	done(err)
	if f != nil {
		Fail(r.Report(ctx, runs, f))
	}
}

// soak compares until something is found, or most has passed unless it is 0. It
// prints how far it is.
func soak(ctx context.Context, r *compare.Runner, most time.Duration) {
	GinkgoHelper()
	const many = 1000
	separate, shared := &compare.Tally{}, &compare.Tally{}
	start := time.Now()
	for seed := firstSeed(); most == 0 || time.Since(start) < most; seed += 2 * many {
		findNothing(ctx, r, compare.SeparateRuns(separate), seed, many)
		findNothing(ctx, r, compare.SharedRuns(shared), seed+many, many)
		fmt.Printf("\n%v\nseparate runs: %v\nshared runs:   %v\n",
			time.Since(start).Round(time.Second), separate, shared)
	}
}

// What the checker says of a side that is wrong on purpose.
const (
	goIsWrong     = "Go does not do what the model says"
	javaIsUnknown = "Java does what is not known of it"
)

func findsOnePermit(s *compare.Sides) {
	s.Go = s.Go.Wrap(func(l limiter, _ string) limiter { return onePermit{l} })
}

type onePermit struct{ limiter }

func (l onePermit) AvailablePermits(ctx context.Context) (int64, error) {
	n, err := l.limiter.AvailablePermits(ctx)
	if n == 0 && err == nil {
		n = 1
	}
	return n, err
}

func releasesAsJava(s *compare.Sides) {
	java := s.Java
	s.Go = s.Go.Wrap(func(l limiter, name string) limiter { return javaRelease{l, java.Limiter(name)} })
}

type javaRelease struct {
	limiter
	java limiter
}

func (l javaRelease) Release(ctx context.Context, permits int64) error {
	c, err := l.limiter.Config(ctx)
	if err != nil || c.Type == rratelimiter.PerClient || permits < 1 {
		return l.limiter.Release(ctx, permits)
	}
	return l.java.Release(ctx, permits)
}

func refusesWhatIsThere(s *compare.Sides) {
	s.Java = s.Java.Wrap(func(l limiter, _ string) limiter { return refusal{l} })
}

type refusal struct{ limiter }

func (l refusal) TryAcquire(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
	ok, err := l.limiter.TryAcquire(ctx, permits, timeout)
	return ok && permits != 1, err
}

func grantsWhatIsNotThere(s *compare.Sides) {
	s.Go = s.Go.Wrap(func(l limiter, _ string) limiter { return generous{l} })
}

type generous struct{ limiter }

func (l generous) TryAcquire(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
	ok, err := l.limiter.TryAcquire(ctx, permits, timeout)
	return ok || err == nil, err
}
