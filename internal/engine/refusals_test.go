package engine

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// The limiters whose refusals are remembered are bounded, and the latest is among them.
func TestRefusalsOfTenThousandLimitersAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes, after which a caller would ask again
		e := New(Config{Remember: time.Minute, Err: errSilent})
		defer e.Close()
		rs := &e.refusals
		for i := range 40_000 {
			l := &Limiter{engine: e, Hash: fmt.Sprint(i)}
			rs.note(l, 1, Result{Wait: 1_000_000}, rs.now(), rs.written(l.Hash))
			if !l.Refused(&Want{Permits: 1}, new(Result)) {
				t.Errorf("the refusal of limiter %d is not repeated", i)
			}
		}
		n := 0
		for i := range rs.stripes {
			n += len(rs.stripes[i].byHash)
		}
		if n < 1_000 || n > refusalStripes*maxRefusals {
			t.Errorf("%d limiters are remembered, want up to %d", n, refusalStripes*maxRefusals)
		}
	})
}
