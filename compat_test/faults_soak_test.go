package compat_test

import (
	"cmp"
	"fmt"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter/internal/faults"
)

// Each fault of a cluster is played once, in random order, or with FAULTS_SOAK
// (`make soak-faults`) again and again for that duration.
var _ = Describe("Faults of a cluster at random", Label(thorough), func() {
	It("leave nothing wrong", func(ctx SpecContext) {
		long := os.Getenv("FAULTS_SOAK")
		span, err := time.ParseDuration(cmp.Or(long, "0s"))
		done(err)
		testbed, err := faults.NewTestbed(ctx, GinkgoT(), peer, faults.Setup{Kind: faults.Clustered})
		done(err)
		figures, err := testbed.Soak(ctx, faults.OfCluster, span, func(r *faults.Report) {
			if long == "" || len(r.Wrong) > 0 {
				AddReportEntry(r.String())
			}
		})
		AddReportEntry(figures.String())
		if long != "" {
			fmt.Println(figures) // also when Ginkgo says little
		}
		done(err)
		Expect(figures.Wrong).To(BeEmpty())
		if long != "" {
			Expect(figures.Late.Quantile(0.999)).To(BeNumerically("<=", faults.Promised))
		}
	}, NodeTimeout(1000*time.Hour))
})
