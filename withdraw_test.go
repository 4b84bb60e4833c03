package rratelimiter_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// The specs here are of permits that were taken for callers who were never told.
// They come back, all of them and no others, whatever else happens to the limiter.

// A request hangs on its connection, and its caller leaves. The next request takes
// back what the first may have been granted. When the first arrives after all, it is
// granted nothing, also where the next one was refused.
func TestWhatHangsIsGrantedNothingAfterARefusal(t *testing.T) {
	for permits, want := range map[int64]error{5: nil, 11: rratelimiter.ErrPermitsExceedRate} {
		n := newLine(t, 10, time.Hour)
		n.l.takes(8)
		c := n.holds(func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			return yes(n.l.TryAcquire(ctx, 2, 0))
		})
		if err := <-c.told; !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%v of a request that hangs", err)
		}
		if ok, err := n.l.TryAcquire(t.Context(), permits, 0); ok || !errors.Is(err, want) {
			t.Errorf("%v, %v; want a refusal, %v", ok, err, want)
		}
		c.arrives()
		n.untilOut(8)
		n.l.keeps(10, n.l.value(), n.l.permits())
	}
}

// Java writes a record of no permits for each tryAcquire(0). However many of them are
// the newest, a release finds what is behind them, and ends.
func TestAReleaseBehindRecordsOfNothing(t *testing.T) {
	n := newLine(t, 10, time.Hour)
	n.l.takes(5)
	n.javaTakes(4001, 0, n.now+1)
	n.now += 2
	before := n.scriptsRun()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	err := n.l.Release(ctx, 5)
	if ran := n.scriptsRun() - before; err != nil || ran > 10 {
		t.Errorf("%v after %d scripts", err, ran)
	}
	if out := n.out(n.l.permits()); out != 0 {
		t.Errorf("%d permits are out, though all were given back", out)
	}
}

// A call handles 2,000 records. What stands in more is taken back by several calls.
func TestAllOfManyRecordsIsTakenBack(t *testing.T) {
	const many = 5000
	n := newLine(t, 6*many, time.Hour, sendsOnce)
	n.l.takes(1)
	n.l.gives(1)
	n.javaTakes(many, 1, n.now)
	n.now++
	n.loses(many)
	n.want(n.somebodyElse().Release(t.Context(), many)) // Java's, but the newest records go first
	n.untilOut(0)
	n.l.keeps(6*many, n.l.value(), n.l.permits())
}

// Hundreds of limiters have lost a reply, and their next requests have settled that. A
// limiter that nobody uses any more does not wait for them.
func TestAWithdrawalWaitsForNoneThatIsSettled(t *testing.T) {
	const settled = 300
	n := newLine(t, 10, time.Hour, sendsOnce)
	for i := range settled {
		name := fmt.Sprintf("%s-%d", n.l.Name(), i)
		n.want(n.look.Copy(t.Context(), n.l.Name(), name, 0, false).Err())
		l := &limiter{n.client.RateLimiter(name), n.bench}
		(&line{n.bench, n.proxy, l}).loses(1)
		l.takes(10)
	}
	n.loses(7)
	untilWithin(t, 5*time.Second, func() bool { return n.out(n.l.permits()) == 0 })
}

// A PerClient value is right by the rate of its type, and not by that of another type,
// which a withdrawal has met meanwhile.
func TestAWithdrawalBetweenTypes(t *testing.T) {
	n := newLine(t, 10, time.Hour, sendsOnce)
	n.setsAsJava(perClient, 10)
	n.l.takes(6)
	n.setsAsJava(overall, 5)
	n.l.has(5) // it has met the type
	n.loses(3)
	if ok, err := n.l.TryAcquire(t.Context(), 6, 0); ok ||
		!errors.Is(err, rratelimiter.ErrPermitsExceedRate) {
		t.Errorf("%v, %v; want ErrPermitsExceedRate", ok, err)
	}
	n.untilOut(0)
	n.setsAsJava(perClient, 5)
	if ok, err := n.l.TryAcquire(t.Context(), 4, 0); ok || err != nil {
		t.Errorf("%v, %v; want a refusal: 6 of 5 are out", ok, err)
	}
}

// What was taken of the permits that all share is not taken back of our own.
func TestAWithdrawalIsOfItsType(t *testing.T) {
	n := newLine(t, 10, time.Hour, sendsOnce)
	n.setsAsJava(perClient, 10)
	n.l.takes(10)
	n.setsAsJava(overall, 10)
	n.l.has(10)
	n.now++
	n.loses(10)
	n.setsAsJava(perClient, 10)
	for range 2 { // the first one has what is to be taken back with it
		if ok, err := n.l.TryAcquire(t.Context(), 10, 0); ok || err != nil {
			t.Errorf("%v, %v; want a refusal: 10 of 10 are out", ok, err)
		}
	}
	if out := n.out(n.l.permits() + ":" + n.client.ID()); out != 10 {
		t.Errorf("%d are out, want 10", out)
	}
}

// Repair puts the value right by a rate. From then on the value is known to be right
// by that rate.
func TestRepairBetweenRates(t *testing.T) {
	n := newLine(t, 10, time.Hour)
	n.setsAsJava(perClient, 10)
	n.l.takes(10)
	n.setsAsJava(perClient, 20)
	n.want(errOf(n.l.Repair(t.Context())))
	n.setsAsJava(perClient, 10)
	if ok, err := n.l.TryAcquire(t.Context(), 10, 0); ok || err != nil {
		t.Errorf("%v, %v; want a refusal: 10 of 10 are out", ok, err)
	}
}

// A field that cannot be read for a moment is no end of a withdrawal.
func TestAWithdrawalOutlastsABadState(t *testing.T) {
	n := newLine(t, 10, time.Hour, sendsOnce)
	n.loses(5)
	n.want(n.look.HSet(t.Context(), n.l.Name(), "rate", "abc").Err())
	if ok, err := n.l.TryAcquire(t.Context(), 1, 0); ok || !errors.Is(err, rratelimiter.ErrBadState) {
		t.Errorf("%v, %v; want ErrBadState", ok, err)
	}
	n.want(n.look.HSet(t.Context(), n.l.Name(), "rate", 10).Err())
	n.l.takes(1)
	n.untilOut(1)
}

// A rename takes along what is still to be taken back.
func TestRenameTakesAWithdrawalAlong(t *testing.T) {
	n := newLine(t, 10, time.Hour, sendsOnce)
	n.loses(5)
	n.want(n.l.Rename(t.Context(), n.l.Name()+"-new"))
	n.untilOut(0)
	n.l.takes(10)
	n.l.keeps(10, n.l.value(), n.l.permits())
}

// An acquire hangs, and go-redis gives up. The error is not that of a release that has
// come meanwhile: the release is done.
func TestAReleaseBehindAnAcquireThatHangs(t *testing.T) {
	n := newLine(t, 10, time.Hour, sendsOnce, func(o *redis.Options) {
		o.ReadTimeout = 500 * time.Millisecond
	})
	n.l.takes(5)
	c := n.holds(func() error { return n.l.Acquire(context.Background(), 1) }) // it never reaches the server
	n.want(n.l.Release(context.Background(), 5))
	if err := <-c.told; !errors.Is(err, rratelimiter.ErrNoAnswer) {
		t.Errorf("the acquire: %v; want ErrNoAnswer", err)
	}
	n.l.has(10)
}
