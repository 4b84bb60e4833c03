package reservations_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// onRedis runs a spec on a real redis-server: miniredis takes long for many records.
func onRedis(t *testing.T, spec func(b *Bench)) {
	t.Helper()
	s := redistest.Start(t)
	spec(NewBench(t, s.Client(t), s.Admin()))
}

// Calls and Repair join the other records and keep those of reservations: settlements give everything back.
// One call of Repair handles fewer records than these. In the format fI some of them choose the same name.
func TestRepairKeepsReservations(t *testing.T) {
	const rate, reserved, many, others = 10_000_000, 500, 2600, 300
	onRedis(t, func(b *Bench) {
		for _, f := range Formats {
			l := b.NewLimiter(Overall, rate, time.Hour).InFormat(f.Since)
			var open []*rratelimiter.Reservation
			for i := range many {
				open = append(open, reserve(l, reserved))
				if b.Now++; i < others {
					l.Takes(1)
				}
			}
			before := l.Size()
			repaired, err := l.Repair(l.Context())
			l.Want(err)
			if before < many || repaired.Records < many || repaired.Records > many+2 ||
				repaired.Drift != 0 {
				l.Errorf("%s: of %d records: %+v; want those of reservations to stay", f.Since, before,
					repaired)
			}
			keeps(l, rate, rate-many*reserved-others)
			for i, r := range open {
				settle(l, r, int64(i%2)*(reserved+3))
			}
			keeps(l, rate, rate-many/2*(reserved+3)-others)
			l.Want(ErrOf(l.Repair(l.Context())))
			for i := 1; i < many; i += 2 { // a settlement from elsewhere finds that it is settled
				elsewhere, err := l.Client.Reservation(open[i].ID())
				l.Want(err)
				settle(l, elsewhere, reserved+3)
			}
			keeps(l, rate, rate-many/2*(reserved+3)-others)
		}
	})
}

// Repair corrects the value beside many reservations, and brings back the time of one.
func TestRepairCorrectsTheValueBesideReservations(t *testing.T) {
	onRedis(t, func(b *Bench) {
		const rate, many = 10_000, 2100
		l := b.NewLimiter(Overall, rate, time.Hour)
		var open []*rratelimiter.Reservation
		for range many {
			open = append(open, reserve(l, 2))
		}
		l.Want(l.Look.ZIncrBy(l.Context(), l.PermitsKey(), 3*float64(time.Hour.Milliseconds()),
			l.Members()[7]).Err())
		b.SetKey(l.ValueKey(), 1000)
		repairs, err := l.Repair(l.Context())
		want := rratelimiter.Repaired{Records: many, Rewritten: 1, Drift: 1000 - (rate - 2*many)}
		if b.Want(err); repairs != want {
			b.Errorf("%+v, want %+v", repairs, want)
		}
		keeps(l, rate, rate-2*many)
		for _, r := range open {
			settle(l, r, 0)
		}
		keeps(l, rate, rate)
	})
}

func TestAReleaseBesideManyReservationsEnds(t *testing.T) {
	onRedis(t, func(b *Bench) {
		const rate, many = 10_000, 2200 // more records than it reads, from the oldest on
		l := b.NewLimiter(Overall, rate, time.Hour)
		for range many {
			reserve(l, 1)
		}
		b.Now++ // a ms in which no request looks whether there are many records
		scripts := b.CountScripts()
		l.With().Gives(3)
		if n := scripts(); n > 2 {
			b.Errorf("it takes %d calls", n)
		}
		keeps(l, rate, rate-many+3)
	})
}

// Two versions with different intervals take turns. A settlement by the one with the longer interval frees
// its permits for it, and gives nothing to the other one, for which they have come back.
func TestSettlingBesideAVersionWithAShorterInterval(t *testing.T) {
	for _, c := range []struct{ used, records int64 }{{0, 1}, {2, 2}} {
		OnBoth(t, func(b *Bench) {
			l := b.NewLimiter(Overall, 0, 0)
			long := b.Wrap(l.WithRate(10, time.Minute))
			short := b.Wrap(l.WithRate(10, time.Second))
			r := reserve(long, 7)
			b.Now += 1500
			short.Takes(1)
			settle(long, r, c.used)
			if l.Size() != c.records {
				b.Errorf("%d records, want %d", l.Size(), c.records)
			}
			l.HasValue("9")
			short.Takes(2)
			short.Refused(8, time.Second)
			long.Takes(7 - c.used)
			if ok, err := long.TryAcquire(b.Context(), 1, 0); ok || err != nil {
				b.Errorf("more than 10 in a minute: %v, %v", ok, err)
			}
		})
	}
}

// An attempt to settle that comes late takes effect, for its session is not lent out before a minute after
// it.
func TestALateAttemptToSettleTakesEffect(t *testing.T) {
	GatedBubble(t, 100, time.Hour, func(l *Limiter) {
		r := reserve(l, 50)
		l.RDB.AddHook(Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			return next(context.WithoutCancel(ctx), cmd) // what was sent arrives
		}))
		attempt := func() (open func()) {
			ctx, cancel := context.WithTimeout(l.Context(), 10*time.Millisecond)
			defer cancel()
			open = l.Gate.Shut()
			if err := r.Settle(ctx, 10); err == nil {
				l.Error("settled without Redis")
			}
			return open
		}
		first := attempt()
		time.Sleep(58500 * time.Millisecond)
		second := attempt()
		time.Sleep(2500 * time.Millisecond)
		third := l.Gate.Shut()
		go third()
		synctest.Wait()
		l.Want(ErrOf(l.Reserve(l.Context(), 1, 0))) // by the session of the attempts, if it is lent out
		second()
		first()
		synctest.Wait()
		l.HasValue(fmt.Sprint(100 - 10 - 1))
		records := l.Records(l.PermitsKey())
		if slices.Sort(records); !slices.Equal(records, []int64{1, 10}) {
			l.Errorf("records of %v", records)
		}
	})
}
