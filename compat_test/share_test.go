package compat_test

import (
	"os"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter/internal/shares"
)

// A single result says little: the tick of Redisson's timer is random, and a busy machine may stop a
// process for a moment. So the median of three runs of each scenario is judged (make shares). A single
// run of some of them shows whether the model of test/waiting waits as Redisson does; two more, which have
// the machine for themselves, decide if it is out of bounds.
var _ = Describe("Shares of a limit too small for all", func() {
	It("are as docs/waiting.md says", func(ctx SpecContext) {
		scenarios, runs := shares.Scenarios(), 3
		if os.Getenv("SHARES") != "long" {
			runs = 1
			scenarios = slices.DeleteFunc(scenarios, func(sc shares.Scenario) bool {
				return sc.Interval != time.Second || sc.Uneven
			})
			for i, sc := range scenarios {
				scenarios[i] = sc.Loosely()
			}
		}
		results := make([][]shares.Result, len(scenarios))
		var all sync.WaitGroup
		for i, sc := range scenarios {
			all.Go(func() {
				defer GinkgoRecover()
				var err error
				results[i], err = shares.Repeat(ctx, peer, sc, runs)
				done(err)
			})
		}
		all.Wait()
		AddReportEntry("medians of the runs; Jain's index of processes in two intervals; the longest time " +
			"in which a side got nothing; the longest wait in Go, and in Java; then the permits of each of " +
			"the first intervals of one run")
		var wrong []string
		for i, sc := range scenarios {
			says, outOfBounds := sc.Judge(results[i])
			if outOfBounds != "" && runs == 1 {
				AddReportEntry(says)
				more, err := shares.Repeat(ctx, peer, sc, 2)
				done(err)
				says, outOfBounds = sc.Judge(append(results[i], more...))
			}
			if outOfBounds != "" {
				says += "\n  out of bounds: " + outOfBounds
				wrong = append(wrong, says)
			}
			AddReportEntry(says)
		}
		Expect(wrong).To(BeEmpty())
	}, NodeTimeout(10*time.Minute))
})
