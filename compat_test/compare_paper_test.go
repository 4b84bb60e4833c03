package compat_test

import (
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// onPaper looks for a sequence of which j does not like what the two rules make,
// and shrinks it.
func onPaper(ctx SpecContext, j judge, java, goes rule, many uint64, t *tally) *finding {
	GinkgoHelper()
	for seed := range many {
		play := func(steps []step) *disagreement {
			d, err := j.twin(ctx, newPaper(java, goes, seed), steps, t)
			Expect(err).NotTo(HaveOccurred())
			return d
		}
		steps := sequence(seed, false)
		if d := play(steps); d != nil {
			steps, d = shrink(steps, d, play)
			return &finding{seed, steps, d}
		}
	}
	return nil
}

var _ = Describe("Comparison by machine, on paper", func() {
	It("has a fault for each difference between Redisson and the model", func(ctx SpecContext) {
		t := &tally{}
		if f := onPaper(ctx, theJudge, redisson, model, 2000, t); f != nil {
			Fail(f.String())
		}
		AddReportEntry(t.String())
	})

	It("needs each of the faults", func(ctx SpecContext) {
		for i, f := range faults {
			if f.name == "B9" {
				continue // it takes two clients of a limiter: compare_test.go
			}
			j := theJudge
			j.faults = slices.Delete(slices.Clone(faults), i, i+1)
			found := onPaper(ctx, j, redisson, model, 20_000, &tally{})
			Expect(found).NotTo(BeNil(), "%s, the number %d, explains nothing", f.name, i)
			Expect(len(found.steps)).To(BeNumerically("<=", 6), found.String())
		}
	})

	// The judge is told that Redisson is like this, so that the faults alone can
	// find out.
	DescribeTable("no fault explains a Redisson that",
		func(ctx SpecContext, spoil func(a *answer, after *world, before world, s step, now int64)) {
			spoilt := func(w world, s step, now int64) (answer, world) {
				a, after := redisson(w, s, now)
				spoil(&a, &after, w, s, now)
				return a, after.tidy()
			}
			j := theJudge
			j.redisson = spoilt
			found := onPaper(ctx, j, spoilt, model, 2000, &tally{})
			Expect(found).NotTo(BeNil())
			Expect(len(found.steps)).To(BeNumerically("<=", 4), found.String())
		},
		Entry("grants what is not there", func(a *answer, _ *world, _ world, s step, _ int64) {
			if s.op == tryAcquire && *a == (answer{result: "false"}) {
				a.result = "true"
			}
		}),
		Entry("takes one permit more", func(a *answer, after *world, _ world, s step, _ int64) {
			if h := after.force(); s.op == tryAcquire && a.result == "true" {
				h.records[len(h.records)-1].permits++
			}
		}),
		Entry("loses a permit", func(a *answer, after *world, _ world, s step, _ int64) {
			if h := after.force(); s.op == tryAcquire && a.result == "true" {
				n, _ := h.number()
				h.value = decimal(n - 1)
			}
		}),
		Entry("releases one permit more", func(_ *answer, after *world, before world, s step, now int64) {
			if s.op == release && s.permits > 0 && before.settings().whole {
				s.permits++
				_, *after = redisson(before, s, now)
			}
		}),
		Entry("releases nothing", func(_ *answer, after *world, before world, s step, _ int64) {
			if s.op == release {
				*after = before
			}
		}),
		Entry("gives permits back 5 ms early", func(a *answer, after *world, before world, s step, now int64) {
			if s.op == tryAcquire {
				*a, *after = redisson(before, s, now+5)
				for i, g := range after.force().records {
					after.force().records[i].at = min(g.at, now)
				}
			}
		}),
		Entry("counts one permit less", func(a *answer, _ *world, _ world, s step, _ int64) {
			if s.op == availablePermits && a.result == "3" {
				a.result = "2"
			}
		}),
		Entry("keeps what was taken when a rate is set", func(_ *answer, after *world, before world, s step, _ int64) {
			if s.op == setRate && after.hash != nil {
				after.pairs = before.pairs
			}
		}),
		Entry("forgets what was taken when it shall be kept", func(_ *answer, after *world, _ world, s step, _ int64) {
			if s.keepState && after.hash != nil {
				after.force().records = nil
			}
		}),
		Entry("updates what is not there", func(a *answer, _ *world, _ world, s step, _ int64) {
			if s.op == updateRate && a.err == "" {
				a.result = "true"
			}
		}),
		Entry("never ends", func(_ *answer, after *world, _ world, s step, _ int64) {
			if s.op == tryAcquire {
				after.ends = 0
			}
		}),
		Entry("takes another error", func(a *answer, _ *world, _ world, s step, _ int64) {
			if s.op == tryAcquire && s.permits > 0 && a.err == notInitialized {
				a.err = exceedsRate
			}
		}),
	)

	It("finds a Go that is a ms late", func(ctx SpecContext) {
		late := func(w world, s step, now int64) (answer, world) {
			if s.op == availablePermits {
				now--
			}
			return model(w, s, now)
		}
		found := onPaper(ctx, theJudge, redisson, late, 2000, &tally{})
		Expect(found).NotTo(BeNil())
		Expect(found.says).To(ContainSubstring("Go does not"))
		Expect(len(found.steps)).To(BeNumerically("<=", 6), fmt.Sprint(found))
	})
})
