package engine

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// The limiters whose refusals are remembered are bounded, and the oldest is dropped first.
func TestRefusalsOfTenThousandLimitersAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes, after which a caller would ask again
		e := New(Config{Remember: time.Minute, Err: errSilent})
		defer e.Close()
		limiter := func(i int) *Limiter { return &Limiter{engine: e, Hash: fmt.Sprint(i)} }
		refused := Result{Wait: 1_000_000}
		first := limiter(0)
		for i := range maxRefusals + 2 {
			l := limiter(i)
			if i == 0 {
				l = first
			}
			e.refusals.note(l, Want{Permits: 1}, refused, e.refusals.now())
			if i < 9 && !l.Refused(&Want{Permits: 1}, new(Result)) {
				t.Errorf("the refusal of limiter %d is not repeated", i)
			}
		}
		for i, want := range map[int]bool{0: false, 1: false, 2: true, maxRefusals + 1: true} {
			if e.refusals.find(limiter(i)) != nil != want {
				t.Errorf("limiter %d is remembered: %v, want %v", i, !want, want)
			}
		}
		if n := len(e.refusals.byHash); n != maxRefusals || e.refusals.find(first) != nil {
			t.Errorf("%d limiters are remembered, want %d", n, maxRefusals)
		}
	})
}
