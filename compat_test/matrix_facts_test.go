package compat_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A subject is a limiter beside a generation: each spec has a new one.
type subject struct {
	*generation
	name       string
	java, goes limiter
	keys       keys
}

// newSubject returns the subject of the specs that follow.
func newSubject(g *generation) *subject {
	s := &subject{generation: g}
	BeforeEach(func() {
		s.name = redistest.Name(GinkgoT())
		s.java, s.goes = g.javas[0].limiter(s.name), g.gos[0].limiter(s.name)
		s.keys = keysOf(s.name).by(g.javas[0], g.gos[0])
	})
	return s
}

// factSpecs are what sets a generation apart. Each spec says what the generation
// does; those that do something else are expected to do that. docs/versions.md
// has the facts in words, and what follows for Go.
func factSpecs(g *generation) {
	s := newSubject(g)
	s.fieldSpecs()
	s.lifetimeSpecs()
	s.permitSpecs()
}

// fact names a spec by what holds since a version, or by what held before.
func (s *subject) fact(since, text, before string, spec func(ctx SpecContext)) {
	if s.before(since) {
		text = before
	}
	It(text, func(ctx SpecContext) { spec(ctx) })
}
