package compat_test

import (
	"reflect"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9/logging"

	"github.com/redisson-go/rratelimiter/internal/faults"
)

// go-redis would print each connection that breaks here.
func init() { logging.Disable() }

var (
	_ = Describe("Faults of a server under load", Ordered, ContinueOnFailure, Label(thorough), func() {
		faultSpecs(faults.Setup{}, slices.Concat(faults.OfServer, faults.OfMemory, faults.OfNetwork))
	})
	_ = Describe("Faults under load with leases", Ordered, ContinueOnFailure, Label(thorough), func() {
		faultSpecs(faults.Setup{Alone: true, Leased: true}, faults.OfLeases)
	})
	_ = Describe("Faults under sentinels under load", Ordered, ContinueOnFailure, Label(thorough), func() {
		faultSpecs(faults.Setup{Kind: faults.Sentinels}, faults.OfSentinel)
	})
)

// faultSpecs has a spec for each fault. Those that need no more than usual share the
// servers, one after another.
func faultSpecs(usual faults.Setup, table []faults.Fault) {
	var shared *faults.Testbed
	BeforeAll(func(ctx SpecContext) {
		var err error
		shared, err = faults.NewTestbed(ctx, GinkgoT(), peer, usual)
		done(err)
	}, NodeTimeout(time.Minute))
	for _, f := range table {
		It(f.Name, func(ctx SpecContext) {
			testbed := shared
			if !reflect.DeepEqual(f.Setup, usual) {
				var err error
				testbed, err = faults.NewTestbed(ctx, GinkgoT(), peer, f.Setup)
				done(err)
			}
			report, err := testbed.Play(ctx, f)
			AddReportEntry(report.String())
			done(err)
			Expect(report.Wrong).To(BeEmpty())
		}, NodeTimeout(2*time.Minute))
	}
}
