package charging_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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

// The specs here are of permits that were taken for callers that never knew.
// They come back, all of them and no others, whatever else happens to the limiter.

// Hundreds of limiters have lost a reply, and their next requests have settled that. A
// limiter that is no longer used does not wait for them.
func TestAWithdrawalWaitsForNoneThatIsSettled(t *testing.T) {
	const settled = 300
	n := NewProxied(t, 10, time.Hour, SendsOnce)
	for i := range settled {
		name := fmt.Sprintf("%s-%d", n.Name(), i)
		n.Want(n.Look.Copy(t.Context(), n.Name(), name, 0, false).Err())
		l := n.Wrap(n.Client.RateLimiter(name))
		l.Loses(1)
		l.Takes(10)
	}
	n.Loses(7)
	Until(t, func() bool { return n.Out(n.PermitsKey()) == 0 })
}

// An acquire hangs, and go-redis gives up. The error is not that of a release that has
// come meanwhile: the release is done.
func TestAReleaseBehindAnAcquireThatHangsIsDone(t *testing.T) {
	n := NewProxied(t, 10, time.Hour, SendsOnce, func(o *redis.Options) {
		o.ReadTimeout = 500 * time.Millisecond
	})
	n.Takes(5)
	c := n.Holds(func() error { return n.Acquire(context.Background(), 1) }) // it never reaches the server
	n.Want(n.Release(context.Background(), 5))
	WantErr(t, <-c.Told, rratelimiter.ErrNoAnswer)
	n.Has(10)
}
