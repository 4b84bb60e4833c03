package rules_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/rules"
)

const settledRules = `
rules:
  - {name: calls, also: true, limits: [{rate: 10/1h, algorithm: fixed-window}]}
  - {name: all, also: true, cost: 100, settle: true, limits: [{rate: 1000/1h}]}
  - name: user
    by: user
    cost: 100
    settle: true
    limits: [{name: hour, rate: 250/1h}, {name: day, rate: 600/24h}]
`

// left returns how much is left of the limits after a call.
func left(g rules.Grant) map[string]int64 {
	all := map[string]int64{}
	for _, r := range each(g) {
		all[r.Policy] = r.Remaining
	}
	return all
}

// wantLeft expects what is left after a call, which has been granted or not.
func wantLeft(t *testing.T, g rules.Grant, allowed bool, want map[string]int64) {
	t.Helper()
	got := left(g)
	for policy, n := range want {
		if g.Allowed != allowed || got[policy] != n {
			t.Fatalf("allowed %v with %v left, want %v with %v", g.Allowed, got, allowed, want)
		}
	}
}

// One Settle settles all limits of all rules that say so, and no others.
func TestRulesSettleTheirLimits(t *testing.T) {
	r := newStore(t, redistest.MiniClient(t, redistest.Mini(t))).rules(t, settledRules)
	g := allow(t, r, of("alice"), 1)
	wantLeft(t, g, true, map[string]int64{"calls": 9, "all": 900, "user/hour": 150, "user/day": 500})
	for _, bad := range [][]int64{{}, {1, 2}, {-1}} {
		if err := g.Reservation().Settle(t.Context(), bad...); !errors.Is(err, limit.ErrInvalidArgument) {
			t.Errorf("Settle(%v): %v", bad, err)
		}
	}
	redistest.NoError(t, g.Reservation().Settle(t.Context(), 30))
	redistest.NoError(t, g.Reservation().Settle(t.Context(), 5))
	g = allow(t, r, of("alice"), 1)
	wantLeft(t, g, true, map[string]int64{"calls": 8, "all": 870, "user/hour": 120, "user/day": 470})
	redistest.NoError(t, g.Reservation().Settle(t.Context(), 200))
	// 230 of 250 are used. A refused call gives back what it reserved of the limits before.
	g = allow(t, r, of("alice"), 1)
	wantLeft(t, g, false, map[string]int64{"calls": 8, "all": 770, "user/hour": 20, "user/day": 370})
	if g.Reservation() != nil {
		t.Error("a refused call has a reservation")
	}
	wantLeft(t, allow(t, r, of("bob"), 1), true, map[string]int64{"calls": 7, "all": 670, "user/hour": 150})
}

// A reservation is settled also when the rules were replaced meanwhile: it belongs to the limit, whatever
// its rate is by then.
func TestReservationsOutliveAReload(t *testing.T) {
	r := newStore(t, redistest.MiniClient(t, redistest.Mini(t))).rules(t, settledRules)
	g := allow(t, r, of("alice"), 1)
	another := strings.NewReplacer("1000/1h", "2000/1h", "name: user", "name: users").Replace(settledRules)
	redistest.NoError(t, r.Reload(parsed(t, another)))
	redistest.NoError(t, g.Reservation().Settle(t.Context(), 30))
	wantLeft(t, allow(t, r, of("alice"), 1), true, map[string]int64{"all": 1870, "users/hour": 150})
	redistest.NoError(t, r.Reload(parsed(t, settledRules)))
	wantLeft(t, allow(t, r, of("alice"), 1), true, map[string]int64{"all": 770, "user/hour": 120})
}
