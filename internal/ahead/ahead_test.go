package ahead

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/request"
)

// newAhead returns an Ahead that remembers refusals, on an Engine that no call can use.
func newAhead(t *testing.T) *Ahead {
	e := engine.New(engine.Config{Config: request.Config{Err: failure.ErrClosed}})
	t.Cleanup(e.Close)
	return New(e, Settings{Remember: time.Minute})
}

// refusedFor notes that Redis has refused a permit of the limiter called name, for a second, to a call that
// found a number of writes.
func (a *Ahead) refusedFor(name string, writes int64) *engine.Limiter {
	l := a.engine.Beside(name)
	v := engine.Result{Wait: 1_000_000}
	a.note(a.enter(l), newRefusal(l, 1, v), time.Since(a.began), writes)
	return l
}

// The limiters of which something is known are bounded, and the latest is among them.
func TestRefusalsOfTenThousandLimitersAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes, after which a caller would ask again
		a := newAhead(t)
		for i := range 3*maxStates + 1 {
			l := a.refusedFor(fmt.Sprint(i), 0)
			if !a.Decide(l, false, &engine.Want{Permits: 1}, new(engine.Result)) {
				t.Errorf("the refusal of limiter %d is not repeated", i)
			}
		}
		n := 0
		a.byHash.Range(func(any, any) bool { n++; return true })
		if n < 1 || n > maxStates || int64(n) != a.size.Load() {
			t.Errorf("%d limiters are known, %d counted; want up to %d", n, a.size.Load(), maxStates)
		}
	})
}

// A limiter with a lease is not forgotten: its permits would be lost.
func TestALimiterWithALeaseIsNotForgotten(t *testing.T) {
	a := newAhead(t)
	leased := a.engine.Beside("leased")
	a.enter(leased).current.Store(&lease{})
	for i := range maxStates + 1 {
		a.enter(a.engine.Beside(fmt.Sprint(i)))
	}
	s := a.of(leased.Hash)
	if s == nil || a.of(a.engine.Beside("0").Hash) != nil {
		t.Fatal("the limiter with a lease was forgotten, or none was")
	}
	s.current.Store(nil)
}

// A refusal that was under way during a write of this Client is not remembered.
func TestARefusalBeforeAWriteIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAhead(t)
		for _, row := range []struct {
			name              string
			noted             int64 // writes that the refused call found
			before, after, ok bool  // a write before and after the refusal was noted; whether it is repeated
		}{
			{"none", 0, false, false, true},
			{"before", 0, true, false, false},
			{"known", 1, true, false, true},
			{"after", 0, false, true, false},
		} {
			write := func(is bool) {
				if is {
					a.Wrote(a.engine.Beside(row.name).Hash)
				}
			}
			a.enter(a.engine.Beside(row.name))
			write(row.before)
			l := a.refusedFor(row.name, row.noted)
			write(row.after)
			if ok := a.Decide(l, false, &engine.Want{Permits: 1}, new(engine.Result)); ok != row.ok {
				t.Errorf("write %s: repeated is %v", row.name, ok)
			}
		}
	})
}
