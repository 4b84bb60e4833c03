package rules_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

func TestALimitThatDidNotChangeKeepsItsState(t *testing.T) {
	const before = `
rules:
  - {name: a, match: {route: /a}, by: user, limits: [{rate: 5/1h}]}
  - {name: b, match: {route: /b}, limits: [{rate: 5/1h}]}`
	const five = "by: user, limits: [{rate: 5, per: 60m}]}]"
	a := of("alice")
	a.Path = "/a"
	for what, after := range map[string]struct {
		text string
		left int
	}{
		"the same":      {before, 2},
		"another route": {"rules: [{name: a, match: {route: '/{x}'}, " + five, 2},
		"another order": {"rules: [{name: c, exempt: true}, {name: a, match: {route: /a}, " + five, 2},
		"another rate":  {"rules: [{name: a, match: {route: /a}, by: user, limits: [{rate: 6/1h}]}]", 6},
		"another time":  {"rules: [{name: a, match: {route: /a}, by: user, limits: [{rate: 5/2h}]}]", 5},
		"another name":  {"rules: [{name: x, " + five, 5},
		"another algorithm": {
			"rules: [{name: a, by: user, limits: [{rate: 5/1h, algorithm: fixed-window}]}]", 5,
		},
		"goes by other": {"rules: [{name: a, by: [user, route], limits: [{rate: 5/1h}]}]", 5},
	} {
		r := inMemory(t, before)
		allow(t, r, a, 3)
		redistest.NoError(t, r.Reload(parsed(t, after.text)))
		t.Log(what)
		wantAllowed(t, r, a, after.left)
	}
}

func TestABadSetChangesNothing(t *testing.T) {
	r := inMemory(t, file("limits: [{rate: 5/1h}]"))
	allow(t, r, get("/"), 3)
	if err := r.Reload(nil); !errors.Is(err, limit.ErrInvalidArgument) {
		t.Errorf("%v, want ErrInvalidArgument", err)
	}
	wantAllowed(t, r, get("/"), 2)
}

// While callers ask without a pause, the rules are exchanged again and again. The limit that
// all files have gives out its rate, not less and not more. A call is decided by one file:
// its two other limits are of the same one.
func TestReloadUnderLoad(t *testing.T) {
	const rate, callers = 3000, 8
	text := func(version int) string {
		return fmt.Sprintf(`
rules:
  - {name: kept, also: true, limits: [{rate: %d/1h}]}
  - name: other
    limits: [{name: v%d, rate: 1000000/1h}, {name: w%d, rate: 100000%d/1h, algorithm: fixed-window}]`,
			rate, version, version, version)
	}
	r := inMemory(t, text(0))
	var granted, asked atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var reloads sync.WaitGroup
	reloads.Go(func() {
		for version := 1; ctx.Err() == nil; version++ {
			if err := r.Reload(parsed(t, text(version%10))); err != nil {
				t.Error(err)
			}
		}
	})
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range 2 * rate / callers {
				g := allow(t, r, get("/"), 1)
				asked.Add(1)
				if !g.Allowed {
					continue
				}
				granted.Add(1)
				v, w := g.Each[1].Policy, g.Each[2].Policy
				if v[len("other/v"):] != w[len("other/w"):] {
					t.Errorf("%s and %s decide together", v, w)
				}
			}
		})
	}
	all.Wait()
	stop()
	reloads.Wait()
	if granted.Load() != rate {
		t.Errorf("%d granted of %d asked for, want %d", granted.Load(), asked.Load(), rate)
	}
}
