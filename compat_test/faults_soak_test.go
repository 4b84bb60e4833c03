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

// soakFor is how long random faults go on: FAULTS_SOAK (`make soak-faults`), or a short
// time.
func soakFor() time.Duration {
	span, err := time.ParseDuration(cmp.Or(os.Getenv("FAULTS_SOAK"), "12s"))
	done(err)
	return span
}

var _ = Describe("Faults of a cluster at random", func() {
	It("leave nothing wrong, however many there are", func(ctx SpecContext) {
		stage, err := faults.NewStage(ctx, GinkgoT(), peer, faults.Setup{Kind: faults.Clustered})
		done(err)
		seed := uint64(time.Now().UnixNano())
		figures, err := stage.Soak(ctx, faults.OfCluster, soakFor(), pictures(), seed)
		says := fmt.Sprintf("seed %d: %v", seed, figures)
		AddReportEntry(says)
		if os.Getenv("FAULTS_SOAK") != "" {
			GinkgoWriter.Println(says)
		}
		done(err)
		Expect(figures.Wrong).To(BeEmpty())
	}, NodeTimeout(1000*time.Hour))
})
