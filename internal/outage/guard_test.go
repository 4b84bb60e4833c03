package outage

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/request"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A Guard knows 10,000 limiters for the time when Redis is down, and forgets unused ones.
func TestLimitersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard, limiter := newGuard(t)
		knows := func(i int) bool {
			l := guard.localLimiter(limiter(i, nil), time.Now(), true)
			if l != nil {
				l.rate, l.interval, l.share = 10, time.Second, 1
				take(t, l)
				book(l)
			}
			return l != nil
		}
		for i := range maxLocals {
			if !knows(i) {
				t.Fatalf("no room for limiter %d", i)
			}
		}
		if knows(maxLocals) {
			t.Errorf("a limiter whose rate only this Client knows takes the place of another such")
		}
		time.Sleep(localIdle)
		if !knows(0) {
			t.Error("a limiter that is known is not found")
		}
		time.Sleep(localIdle - time.Second)
		if !knows(maxLocals) || len(guard.locals) != 2 {
			t.Errorf("%d limiters, want those that were used within a minute", len(guard.locals))
		}
		take(t, guard.locals["0"])
		guard.locals["0"].interval = time.Hour
		time.Sleep(10 * time.Minute)
		if !knows(1) || len(guard.locals) != 2 {
			t.Errorf("%d limiters, want also the one with permits to book", len(guard.locals))
		}
	})
}

// Of 10,000 limiters, the one with the least to lose is forgotten, and a call with a given rate always finds
// room.
func TestLimitersAreEvicted(t *testing.T) {
	given := &engine.GivenRate{Rate: engine.Rate{Permits: 10, Interval: time.Hour}, Replaces: true}
	unused := func(*testing.T, *localLimiter) {}
	booked := func(t *testing.T, l *localLimiter) { take(t, l); book(l) }
	ungiven := func(t *testing.T, l *localLimiter) { take(t, l); l.givenRate.Store(nil) }
	for name, tc := range map[string]struct {
		most, few func(*testing.T, *localLimiter) // what becomes of most limiters, and of the few that stay
		later     time.Duration                   // that the few are used
	}{
		"a rate that only this Client knows": {take, ungiven, 0},
		"grants that are not booked":         {booked, take, 0},
		"grants that count":                  {unused, booked, 0},
		"the last use":                       {take, take, time.Second},
		"limiters that are idle":             {ungiven, take, 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				guard, limiter := newGuard(t)
				const few, come = 100, 3000
				for i := range maxLocals {
					if i == maxLocals-few {
						time.Sleep(tc.later)
						guard.sweptAt = time.Now()
					}
					if l := guard.withAssumedRate(limiter(i, given)); i < maxLocals-few {
						tc.most(t, l)
					} else {
						tc.few(t, l)
					}
				}
				for i := range come {
					take(t, guard.withAssumedRate(limiter(maxLocals+i, given)))
				}
				left := 0
				for i := range few {
					if guard.withKnownRate(limiter(maxLocals-few+i, nil)) != nil {
						left++
					}
				}
				if left < few || len(guard.locals) != maxLocals {
					t.Errorf("%d of %d are left, %d of all", left, few, len(guard.locals))
				}
			})
		})
	}
}

// The health changes with the first circuit that opens and with the last that closes.
func TestHealthOfSeveralCircuits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard, _ := newGuard(t)
		var told []bool
		guard.settings.Hook = func(h Health) { told = append(told, h.Degraded) }
		start := time.Now()
		for _, by := range []int32{1, 1, -1, 1, -1, -1} {
			guard.noteCircuit(by, nil)
			if h := guard.Health(); h.Degraded && !h.Since.Equal(start) {
				t.Errorf("since %v, want %v", h.Since, start)
			}
			time.Sleep(time.Second)
		}
		if !slices.Equal(told, []bool{true, false}) {
			t.Errorf("the hook got %v", told)
		}
	})
}

// newGuard returns a Guard, and limiters by number.
func newGuard(t *testing.T) (*Guard, func(int, *engine.GivenRate) *engine.Limiter) {
	t.Helper()
	e := engine.New(engine.Config{Config: request.Config{
		ID: "id", MapName: func(name string) string { return name },
		Runner: redisx.NewRunner(redistest.MiniClient(t, redistest.Mini(t))),
		Layout: wire.Layouts[0].ForClient(), Plain: &wire.Layouts[0],
	}})
	t.Cleanup(e.Close)
	limiter := func(i int, given *engine.GivenRate) *engine.Limiter {
		return e.Limiter("name", fmt.Sprint(i), given)
	}
	return New(e, Settings{}), limiter
}

// take takes a permit without Redis.
func take(t *testing.T, l *localLimiter) {
	t.Helper()
	c := call{guard: l.circuit.guard, limiters: []*engine.Limiter{l.limiter}, permits: []int64{1}}
	if _, err := c.takeShares([]*localLimiter{l}, true); err != nil {
		t.Error(err)
	}
}

// book lets Redis have all grants.
func book(l *localLimiter) {
	_, records := l.nextBooking()
	l.noteBooked(records)
}
