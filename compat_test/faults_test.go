package compat_test

import (
	"os"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9/logging"

	"github.com/redisson-go/rratelimiter/internal/faults"
)

// go-redis would print each connection that breaks here.
func init() { logging.Disable() }

var _ = Describe("Faults under load", func() {
	play := func(ctx SpecContext, f faults.Fault) {
		stage, err := faults.NewStage(ctx, GinkgoT(), peer, f.Setup)
		done(err)
		report, err := stage.Play(ctx, f, pictures())
		AddReportEntry(report.String())
		done(err)
		Expect(report.Wrong).To(BeEmpty())
	}
	for _, f := range slices.Concat(faults.OfServer, faults.OfMemory, faults.OfNetwork) {
		It(f.Name, func(ctx SpecContext) { play(ctx, f) }, NodeTimeout(2*time.Minute))
	}
})

// pictures returns the directory for pictures of what is wrong. They stay there.
func pictures() string {
	dir, err := os.MkdirTemp("", "rratelimiter-grants-")
	done(err)
	DeferCleanup(func() { _ = os.Remove(dir) }) // if it is empty
	return dir
}
