package rratelimiter_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// An away limiter is one whose Client cannot reach Redis when it is told so.
type away struct {
	*limiter
	client *rratelimiter.Client
	gone   *atomic.Bool
}

// mayBeAway returns the limiter by a Client of its own, which knows its rate.
func (l *limiter) mayBeAway(opts ...rratelimiter.Option) *away {
	b, gone := l.b, &atomic.Bool{}
	b.Helper()
	b.rdb.AddHook(answering(func(cmd redis.Cmder) bool {
		if gone.Load() && cmd.Name() == "evalsha" {
			cmd.SetErr(redisError("LOADING Redis is loading the dataset in memory"))
			return true
		}
		return false
	}))
	c := b.newClient(append(opts, rratelimiter.WithFallback(rratelimiter.FallbackLocal),
		rratelimiter.WithLocalShare(1), rratelimiter.WithBudget(500*time.Millisecond))...)
	a := &away{l.by(c), c, gone}
	config, err := a.Config(b.Context())
	b.want(err)
	b.want(a.SetRate(b.Context(), config.Type, config.Rate, config.Interval)) // so it knows the rate
	return a
}

// grants has permits granted without Redis, and waits until they are booked.
func (a *away) grants(permits int64) {
	a.b.Helper()
	a.gone.Store(true)
	r, err := a.Allow(a.b.Context(), permits)
	if err != nil || !r.Allowed || !r.Degraded {
		a.b.Fatalf("%+v, %v; want granted without Redis", r, err)
	}
	a.gone.Store(false)
	until(a.b.T, func() bool { return a.client.Health().Unbooked == 0 })
}

// What is booked is a record like any other, in the format of the Client, dated with the
// time of the grant.
func TestABookedRecord(t *testing.T) {
	eachFormat(t, func(b *bench, opts ...rratelimiter.Option) {
		l := b.limiter(overall, 10, time.Hour)
		a := l.mayBeAway(opts...)
		a.grants(4)
		members := a.members()
		if len(members) != 1 {
			t.Fatalf("%q; want one record", members)
		}
		if n, err := wire.Permits(members[0]); n != 4 || err != nil {
			t.Errorf("%q holds %d, %v; want 4", members[0], n, err)
		}
		score := b.look.ZScore(context.Background(), a.permits(), members[0]).Val()
		if at := int64(score); at > b.now || at < b.now-60_000 || float64(at) != score {
			t.Errorf("dated %v, want a whole ms near %d", score, b.now)
		}
		a.has(6)
		a.takes(6)
		a.gives(10)
		a.has(10)
	})
}

// More than the rate may be out then: what comes back makes up for it first.
func TestBookingMoreThanIsLeft(t *testing.T) {
	onBoth(t, func(b *bench) {
		for _, typ := range []rratelimiter.RateType{overall, perClient} {
			l := b.limiter(typ, 10, time.Hour)
			a := l.mayBeAway()
			other := a.limiter
			if typ == overall {
				other = l.by(b.newClient())
			}
			a.gone.Store(true)
			r, err := a.Allow(b.Context(), 8)
			if err != nil || !r.Degraded {
				t.Fatalf("%+v, %v", r, err)
			}
			a.gone.Store(false)
			if typ == overall {
				other.takes(7) // before it is booked
			}
			until(t, func() bool { return a.client.Health().Unbooked == 0 })
			if typ == overall {
				a.has(0)
				a.gives(7)
			}
			a.has(2)
			a.gives(8)
			a.has(10)
		}
	})
}

// Thousands of records have expired: they are removed first, so that what is booked is
// not among them.
func TestBookingWhenManyHaveExpired(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 10_000, time.Minute)
		a := l.mayBeAway()
		a.fill(b.now-100_000, 10, 6000, 1)
		a.grants(4)
		a.has(9996)
		if n := a.size(); n != 1 {
			t.Errorf("%d records, want 1", n)
		}
	})
}
