package compat_test

import (
	"context"
	"fmt"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter/internal/compare"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// together is how many sequences are played.
const together = 400

var _ = Describe("Comparison by machine", Ordered, ContinueOnFailure, func() {
	var r *compare.Runner
	BeforeAll(func(ctx SpecContext) { r = compare.Start(ctx, GinkgoT(), peer) }, NodeTimeout(time.Minute))
	BeforeEach(func() { r.Spoil = nil })

	It("finds nothing wrong where both take turns on one name", func(ctx SpecContext) {
		findNothing(ctx, r, firstSeed(), redistest.Rounds(GinkgoT(), together))
	})

	DescribeTable("finds what is wrong on purpose:",
		func(ctx SpecContext, says string, spoil func(l limiter, java bool) limiter) {
			r.Spoil = spoil
			f, err := r.Search(ctx, firstSeed(), 1000)
			done(err)
			Expect(f).NotTo(BeNil())
			Expect(f.Says).To(ContainSubstring(says), f.String())
		},
		Entry("a Go that finds one permit where none is", "Go does not do what the model says",
			func(l limiter, java bool) limiter {
				if java {
					return l
				}
				return onePermit{l}
			}),
		Entry("a Java that grants what is not there", "permits in a window",
			func(l limiter, java bool) limiter {
				if java {
					return generous{l}
				}
				return l
			}),
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
func findNothing(ctx context.Context, r *compare.Runner, seed uint64, many int) {
	GinkgoHelper()
	f, err := r.Search(ctx, seed, many)
	done(err)
	if f != nil {
		Fail(f.String())
	}
}

// soak compares until a difference is found, or most has passed unless it is 0. It prints how far it is.
func soak(ctx context.Context, r *compare.Runner, most time.Duration) {
	GinkgoHelper()
	const many = 1000
	start, first := time.Now(), firstSeed()
	for seed := first; most == 0 || time.Since(start) < most; seed += many {
		findNothing(ctx, r, seed, many)
		fmt.Printf("%v: %d sequences\n", time.Since(start).Round(time.Second), seed+many-first)
	}
}

type onePermit struct{ limiter }

func (l onePermit) AvailablePermits(ctx context.Context) (int64, error) {
	n, err := l.limiter.AvailablePermits(ctx)
	if n == 0 && err == nil {
		n = 1
	}
	return n, err
}

type generous struct{ limiter }

func (l generous) TryAcquire(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
	ok, err := l.limiter.TryAcquire(ctx, permits, timeout)
	return ok || err == nil, err
}
