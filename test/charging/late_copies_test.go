package charging_test

import (
	"context"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// The specs here are of requests that arrive when go-redis has sent them again,
// or when their callers have gone.

// When a release arrives an interval late, its permits have come back
// already. The permits that are out then belong to other callers.
func TestAReleaseThatIsAnIntervalLateGivesNothingBack(t *testing.T) {
	const interval = 50 * time.Millisecond
	n := NewProxied(t, 10, interval)
	n.Takes(4)
	c := n.Holds(func() error { return n.Release(context.Background(), 4) }) // the first copy never arrives
	start := time.Now()
	Until(t, func() bool { return time.Since(start) > interval })
	n.Want(c.Overtaken())
	n.Has(6)
	n.Keeps(10, n.ValueKey(), n.PermitsKey())
}

// SetRate clears the keys of the other type in a second script. When that comes
// late it leaves the type in force alone.
func TestALateClearHarmsNoCaller(t *testing.T) {
	n := NewProxied(t, 10, time.Hour)
	same := NewClient(t, n.Look, rratelimiter.WithID(n.Client.ID()))
	other := n.By(same)
	n.Want(n.SetRate(t.Context(), Overall, 10, time.Hour))
	n.SetKey(n.ValueKey()+":"+n.Client.ID(), 1) // something to clear
	scripts := 0
	clears := n.HoldsNext(func(args []string) bool {
		if IsScript(args) {
			scripts++
		}
		return scripts == 2
	}, func() error { return n.SetRate(context.Background(), Overall, 10, time.Hour) })
	n.Want(other.SetRate(t.Context(), PerClient, 5, time.Hour))
	other.Takes(3)
	clears.Pass()
	n.Want(<-clears.Told)
	other.Has(2)
}
