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
