package compat_test

import (
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// What takes seconds of waiting is waited for at once: each has a lock of its own.
var _ = Describe("Long waits for locks beside Redisson "+newest.version, Label("locks"), func() {
	It("end when places, leases and clocks say so, and not before", func(ctx SpecContext) {
		sideBySide(
			func() { newest.anyLock().outlastsInterrupted(ctx) },
			func() { newest.anyLock().outlastsKilled(ctx) },
			func() { newest.anyLock().inheritsFrom(ctx, "Java") },
			func() { newest.anyLock().inheritsFrom(ctx, "Go") },
			func() { newest.anyLock().keepsItsPlace(ctx) },
			func() { newest.anyLock().regainsItsPlace(ctx) },
			func() { newest.anyLock().losesByClockOfJava(ctx) },
			func() { newest.anyLock().losesByClockOfRedis(ctx) },
		)
	}, SpecTimeout(2*time.Minute))
})

// anyLock returns the locks of a fresh name.
func (g *generation) anyLock() *lockSubject {
	s := &lockSubject{generation: g}
	s.named(redistest.Name(GinkgoT()))
	return s
}

// sideBySide runs parts of a spec that mostly wait, and returns when all have ended.
func sideBySide(parts ...func()) {
	var all sync.WaitGroup
	for _, part := range parts {
		all.Go(func() {
			defer GinkgoRecover()
			part()
		})
	}
	all.Wait()
}
