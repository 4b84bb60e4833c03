package charging_test

import (
	"context"
	"errors"
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
	UntilWithin(t, 5*time.Second, func() bool { return n.Out(n.PermitsKey()) == 0 })
}

// A PerClient value is right by the rate of its type, and not by that of another type,
// which a withdrawal has met meanwhile.
func TestAWithdrawalBetweenTypesKeepsTheValueRight(t *testing.T) {
	n := NewProxied(t, 10, time.Hour, SendsOnce)
	n.SetsAsJava(PerClient, 10)
	n.Takes(6)
	n.SetsAsJava(Overall, 5)
	n.Has(5) // it has met the type
	n.Loses(3)
	if ok, err := n.TryAcquire(t.Context(), 6, 0); ok ||
		!errors.Is(err, rratelimiter.ErrPermitsExceedRate) {
		t.Errorf("%v, %v; want ErrPermitsExceedRate", ok, err)
	}
	n.UntilOut(0)
	n.SetsAsJava(PerClient, 5)
	NoError(t, No(n.TryAcquire(t.Context(), 4, 0)))
}

// Permits that were taken from the shared pair are not taken back from our own.
func TestAWithdrawalIsOfItsType(t *testing.T) {
	n := NewProxied(t, 10, time.Hour, SendsOnce)
	n.SetsAsJava(PerClient, 10)
	n.Takes(10)
	n.SetsAsJava(Overall, 10)
	n.Has(10)
	n.Now++
	n.Loses(10)
	n.SetsAsJava(PerClient, 10)
	for range 2 { // the first one has what is to be taken back with it
		NoError(t, No(n.TryAcquire(t.Context(), 10, 0)))
	}
	if out := n.Out(n.PermitsKey() + ":" + n.Client.ID()); out != 10 {
		t.Errorf("%d are out, want 10", out)
	}
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
