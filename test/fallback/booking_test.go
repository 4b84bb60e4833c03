package fallback_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/wire"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// An away limiter is one whose Client cannot reach Redis when it is told so.
type away struct {
	*Limiter
	client *rratelimiter.Client
	gone   *atomic.Bool
}

// mayBeAway returns the limiter by a Client of its own, which knows its rate.
func mayBeAway(l *Limiter, opts ...rratelimiter.Option) *away {
	b, gone := l.Bench, &atomic.Bool{}
	b.Helper()
	b.RDB.AddHook(Answering(func(cmd redis.Cmder) bool {
		if gone.Load() && cmd.Name() == "evalsha" {
			cmd.SetErr(RedisError("LOADING Redis is loading the dataset in memory"))
			return true
		}
		return false
	}))
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
