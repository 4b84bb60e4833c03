package compat_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
)

// The matrix: the same specs beside each generation of Redisson, and specs of what
// only that generation does. docs/versions.md says the same for users.
var _ = func() bool {
	Describe("Redisson "+newest.version, Label("matrix"), func() {
		Context("in particular", func() { factSpecs(newest) })
		Context("records", func() { recordSpecs(newest) })
	})
	for _, g := range older {
		Describe("Redisson "+g.version, Ordered, ContinueOnFailure, g.labels("matrix"), func() {
			BeforeAll(g.start, NodeTimeout(5*time.Minute)) // may have to build it
			operationSpecs(g)
			perClientSpecs(g)
			ledgerSpecs(g)
			healingSpecs(g)
			debtSpecs(g)
			nameSpecs(g)
			waitingSpecs(g)
			listenerSpecs(g)
			if g.beside() != newest.beside() {
				resolutionSpecs(g)
			}
			togetherSpecs(g, 30, 300*time.Millisecond, 1500*time.Millisecond, 0.2)
			Context("in particular", func() { factSpecs(g) })
			Context("records", func() { recordSpecs(g) })
		})
	}
	return true
}()
