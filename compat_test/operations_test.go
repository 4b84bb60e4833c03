package compat_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

const (
	overall   = rratelimiter.Overall
	perClient = rratelimiter.PerClient
	minute    = time.Minute
)

func config(typ rratelimiter.RateType, rate int64, interval time.Duration) rratelimiter.Config {
	return rratelimiter.Config{Type: typ, Rate: rate, Interval: interval}
}

var _ = Describe("What one side does, the other obeys", func() { operationSpecs(newest) })

// operationSpecs are the specs of each operation beside a generation: one side
// does it, and the other sees and obeys it.
func operationSpecs(g *generation) {
	rateSpecs(g)
	permitSpecs(g)
	keySpecs(g)
}

// each makes a table of a spec, with an entry for each direction.
func (g *generation) each(text string, spec func(ctx SpecContext, p pair), needs ...need) {
	DescribeTable(text, func(ctx SpecContext, actor, see side) {
		spec(ctx, newPair(actor, see, redistest.Name(GinkgoT())))
	}, g.directions(needs...))
}
