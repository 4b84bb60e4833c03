package fallback_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/wire"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// An away limiter is one whose Client can be cut off from Redis.
type away struct {
	*Limiter
	client *rratelimiter.Client
	gone   *atomic.Bool
}

// mayBeAway returns the limiter by a Client of its own, which knows its rate.
func mayBeAway(l *Limiter, opts ...rratelimiter.Option) *away {
	b, gone := l.Bench, &atomic.Bool{}
	b.Helper()
	b.RDB.AddHook(Refusing("LOADING Redis is loading the dataset in memory", gone))
	c := b.NewClient(append(opts, rratelimiter.WithFallback(rratelimiter.FallbackLocal),
		rratelimiter.WithLocalShare(1), rratelimiter.WithBudget(500*time.Millisecond))...)
	a := &away{l.By(c), c, gone}
	config, err := a.Config(b.Context())
	b.Want(err)
	b.Want(a.SetRate(b.Context(), config.Type, config.Rate, config.Interval)) // so it knows the rate
	return a
}

// grants has permits granted without Redis, and waits until they are booked.
func (a *away) grants(permits int64) {
	a.Helper()
	a.gone.Store(true)
	r, err := a.Allow(a.Context(), permits)
	if err != nil || !r.Allowed || !r.Degraded {
		a.Fatalf("%+v, %v; want granted without Redis", r, err)
	}
	a.gone.Store(false)
	Until(a.T, func() bool { return a.client.Health().Unbooked == 0 })
}

// What is booked is a record like any other, in the format of the Client, dated with the
// time of the grant.
func TestABookedRecordIsLikeAnyOther(t *testing.T) {
	EachFormat(t, func(b *Bench, opts ...rratelimiter.Option) {
		l := b.NewLimiter(Overall, 10, time.Hour)
		a := mayBeAway(l, opts...)
		a.grants(4)
		members := a.Members()
		if len(members) != 1 {
			t.Fatalf("%q; want one record", members)
		}
		if n, err := wire.Permits(members[0]); n != 4 || err != nil {
			t.Errorf("%q holds %d, %v; want 4", members[0], n, err)
		}
		score := b.Look.ZScore(context.Background(), a.PermitsKey(), members[0]).Val()
		if at := int64(score); at > b.Now || at < b.Now-60_000 || float64(at) != score {
			t.Errorf("dated %v, want a whole ms near %d", score, b.Now)
		}
		a.Has(6)
		a.Takes(6)
		a.Gives(10)
		a.Has(10)
	})
}

// More than the rate may be out then: what comes back makes up for it first.
func TestBookingMoreThanIsLeftIsMadeUpFor(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		for _, typ := range []rratelimiter.RateType{Overall, PerClient} {
			l := b.NewLimiter(typ, 10, time.Hour)
			a := mayBeAway(l)
			other := a.Limiter
			if typ == Overall {
				other = l.By(b.NewClient())
			}
			a.gone.Store(true)
			r, err := a.Allow(b.Context(), 8)
			if err != nil || !r.Degraded {
				t.Fatalf("%+v, %v", r, err)
			}
			a.gone.Store(false)
			if typ == Overall {
				other.Takes(7) // before it is booked
			}
			Until(t, func() bool { return a.client.Health().Unbooked == 0 })
			if typ == Overall {
				a.Has(0)
				a.Gives(7)
			}
			a.Has(2)
			a.Gives(8)
			a.Has(10)
		}
	})
}

// Thousands of records have expired: they are removed first, so that what is booked is
// not among them.
func TestBookingKeepsItsRecordWhenManyHaveExpired(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 10_000, time.Minute)
		a := mayBeAway(l)
		a.Fill(b.Now-100_000, 10, 6000, 1)
		a.grants(4)
		a.Has(9996)
		if n := a.Size(); n != 1 {
			t.Errorf("%d records, want 1", n)
		}
	})
}

// A cutOff is a limiter whose Client grants permits while it is cut off from the server, and books
// them afterwards.
type cutOff struct {
	*Limiter
	client *rratelimiter.Client
	l      *Limiter
}

// newCutOff returns one of a rate of 10 in an hour. The server knows the scripts: otherwise the first
// reply to a booking that is lost may be NOSCRIPT.
func newCutOff(t *testing.T) *cutOff {
	t.Helper()
	n := NewProxied(t, 10, time.Hour, SendsOnce)
	client := n.NewClient(rratelimiter.WithFallback(rratelimiter.FallbackLocal),
		rratelimiter.WithLocalShare(1))
	c := &cutOff{n, client, n.By(client)}
	n.Want(c.l.SetRate(t.Context(), Overall, 10, time.Hour)) // so it knows the rate
	c.grants(1)
	n.Proxy.Up()
	c.untilBooked()
	n.UntilOut(1)
	n.Other().Gives(1)
	return c
}

// grants cuts the Client off, which then grants permits.
func (c *cutOff) grants(permits int) {
	c.Helper()
	c.Proxy.Down()
	c.Proxy.Cut()
	for range permits {
		c.l.Takes(1)
	}
}

func (c *cutOff) untilBooked() {
	c.Helper()
	Until(c.T, func() bool { return c.client.Health().Unbooked == 0 })
}

// isBooking reports whether a request is a booking.
func isBooking(args []string) bool { return IsScript(args) && len(args) > 3+3+12 }

// A booking whose reply is lost is sent again, and booked once.
func TestGrantsAreBookedOnce(t *testing.T) {
	c := newCutOff(t)
	c.grants(7)
	c.Proxy.SwallowReplyTo(2, isBooking)
	c.Proxy.Up()
	c.untilBooked()
	if n := c.Proxy.Swallowed(); n != 2 {
		t.Errorf("%d replies were lost", n)
	}
	c.UntilOut(7)
	value, err := strconv.Atoi(c.Look.Get(t.Context(), c.l.ValueKey()).Val())
	if err != nil || value != 3 {
		t.Errorf("value %d, %v; want 3", value, err)
	}
	c.l.Has(3)
}

// A booking whose reply is lost is booked once, also if another Client gives permits back out of its record
// before the second copy comes.
func TestABookingThatWasGivenBackIsNotMadeAgain(t *testing.T) {
	c := newCutOff(t)
	other := c.Other()
	c.grants(4)
	copies := 0
	c.Proxy.SwallowReplyTo(1, isBooking)
	pass := c.Proxy.HoldNext(1, func(args []string) bool {
		if isBooking(args) {
			copies++
		}
		return copies == 2
	})
	c.Proxy.Up()
	Until(t, func() bool { return c.Proxy.Held() == 1 })
	c.UntilOut(4)
	c.Now += 1000
	other.Takes(2)
	c.Other().Gives(2) // out of the oldest record
	other.Has(6)
	pass()
	c.untilBooked()
	c.UntilOut(4)
	other.Has(6)
}

// A copy of a booking that arrives behind a later booking books nothing.
func TestALateCopyOfABooking(t *testing.T) {
	c := newCutOff(t)
	c.grants(4)
	first := c.HoldsNext(isBooking, func() error {
		c.Proxy.Up()
		return nil
	})
	c.Want(first.Overtaken())
	c.untilBooked()
	c.UntilOut(4)
	c.Other().Gives(4)
	c.grants(2)
	c.Proxy.Up()
	c.untilBooked()
	c.UntilOut(2)
	first.Arrives()
	c.UntilOut(2)
	c.l.Has(8)
}
