package reservations_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

func reserve(l *Limiter, permits int64) *rratelimiter.Reservation {
	l.Helper()
	r, err := l.Reserve(l.Context(), permits, 0)
	if r == nil || err != nil {
		l.Fatalf("reserve %d at %d: %v, %v", permits, l.Now, r, err)
	}
	return r
}

func settle(l *Limiter, r *rratelimiter.Reservation, used int64) {
	l.Helper()
	l.Want(r.Settle(l.Context(), used))
}

// keeps expects permits to be left, perhaps below 0, and value + records = rate.
func keeps(l *Limiter, rate, left int64) {
	l.Helper()
	l.Keeps(rate, l.ValueKey(), l.PermitsKey())
	l.HasValue(fmt.Sprint(left))
}

// TryReserve returns the numbers of Allow, and a Reservation if they allow the call.
func TestTryReserveReturnsTheNumbersOfAllow(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 10, time.Second)
		r, result, err := l.TryReserve(b.Context(), 7)
		want := rratelimiter.Result{
			Allowed: true, Name: l.Name(), Limit: 10, Interval: time.Second, Remaining: 3,
			ResetAfter: time.Second,
		}
		if r == nil || err != nil || !reflect.DeepEqual(result, want) {
			t.Fatalf("%v, %+v, %v; want %+v", r, result, err, want)
		}
		none, result, err := l.TryReserve(b.Context(), 7)
		want.Allowed, want.RetryAfter = false, time.Second
		if none != nil || err != nil || !reflect.DeepEqual(result, want) {
			t.Errorf("%v, %+v, %v; want it refused with %+v", none, result, err, want)
		}
		WantErr(b, none.Settle(b.Context(), 1), rratelimiter.ErrInvalidArgument)
		settle(l, r, 2)
		keeps(l, 10, 8)
	})
}

// A cost that was reserved is settled without Redis. A Client that is closed settles nothing.
func TestSettlementsWithoutRedis(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 10, time.Second)
		exact := reserve(l, 1)
		if sent := b.Sent(func() { settle(l, exact, 1) }); sent != 0 {
			t.Errorf("%d commands for a cost that was reserved", sent)
		}
		c := b.NewClient()
		r, err := c.RateLimiter(l.Name()).Reserve(b.Context(), 7, 0)
		b.Want(err)
		b.Want(c.Close())
		WantErr(b, r.Settle(b.Context(), 2), rratelimiter.ErrClosed)
		l.Has(2)
	})
}

// A debt has a bound, above which a charge is refused and takes nothing.
func TestADebtHasABound(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 10, time.Hour)
		l.Takes(1)
		const near = "-9007199254740000" // almost -2^53
		b.SetKey(l.ValueKey(), near)
		if _, err := l.Charge(b.Context(), 10_000); !errors.Is(err, rratelimiter.ErrInvalidArgument) {
			t.Errorf("%v, want an ErrInvalidArgument", err)
		}
		l.HasValue(near)
	})
}

// However many callers settle and charge at once, the hash has sessions for 16 of them.
func TestSettlementsHaveFewSessions(t *testing.T) {
	s := redistest.Start(t)
	l := NewClient(t, s.Client(t)).RateLimiter(redistest.Name(t)).WithRate(1_000_000, time.Hour)
	const callers, config, sessions = 500, 5, 16 // config: rate, interval, type, keepAliveTime, checked
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			r, err := l.Reserve(t.Context(), 5, 0)
			NoError(t, err)
			NoError(t, r.Settle(t.Context(), 7))
			NoError(t, ErrOf(l.Charge(t.Context(), 1)))
		})
	}
	all.Wait()
	if n := s.Admin().HLen(t.Context(), l.Name()).Val(); n > config+sessions {
		t.Errorf("%d fields, want %d at most", n, config+sessions)
	}
}

// A reservation whose name another record has gets another name, in each format, and is settled by itself.
func TestAReservationWhoseNameIsTakenGetsAnother(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		var taken func(record string)
		b.RDB.AddHook(Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			for _, arg := range cmd.Args() {
				if record, ok := arg.(string); ok && taken != nil {
					taken(record)
				}
			}
			return next(ctx, cmd)
		}))
		for _, f := range Formats {
			l := b.NewLimiter(Overall, 100, time.Hour).InFormat(f.Since)
			l.Takes(1)
			b.SetKey(l.ValueKey(), 100-1-5)
			taken = func(record string) {
				if len(record) == f.Size && strings.HasPrefix(record, f.Header) {
					taken = nil
					l.Record(b.Now, record)
				}
			}
			r := reserve(l, 5)
			if l.Size() != 3 || taken != nil {
				b.Errorf("%s: %d records, want 3", f.Since, l.Size())
			}
			settle(l, r, 2)
			keeps(l, 100, 100-1-5-2)
		}
	})
}

// A diary is an Observer that keeps what was taken.
type diary struct{ took []string }

func (d *diary) Observe(_ context.Context, o rratelimiter.Observation) {
	d.took = append(d.took, fmt.Sprint(o.Permits, o.Result.Allowed, o.Result.Debt, o.Result.Degraded))
	if o.Err != nil && !errors.Is(o.Err, rratelimiter.ErrInvalidArgument) {
		d.took = append(d.took, o.Err.Error())
	}
}

// wants expects calls in this order, and forgets them.
func (d *diary) wants(b *Bench, calls ...string) {
	b.Helper()
	if fmt.Sprint(d.took) != fmt.Sprint(calls) {
		b.Errorf("observed %q, want %q", d.took, calls)
	}
	d.took = nil
}

// An Observer sees what Reserve takes and what Charge and Settle charge, each with its permits. It sees no
// Settle that charges nothing.
func TestAnObserverSeesReservationsAndCharges(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		var d diary
		client := b.NewClient(rratelimiter.WithObserver(&d))
		l := b.NewLimiter(Overall, 10, time.Minute).By(client)
		r := reserve(l, 4)
		d.wants(b, "4 true 0 false")
		settle(l, r, 1)
		settle(l, r, 9)
		d.wants(b)
		r = reserve(l, 2)
		settle(l, r, 9)
		settle(l, r, 9)
		d.wants(b, "2 true 0 false", "7 true 0 false")
		b.Want(ErrOf(l.Charge(b.Context(), 3)))
		d.wants(b, "3 true 3 false")
		if _, err := l.Charge(b.Context(), 0); !errors.Is(err, rratelimiter.ErrInvalidArgument) {
			t.Error(err)
		}
		d.wants(b, "0 false 0 false")

		other := client.RateLimiter(l.Name()+"2").WithRate(100, time.Minute)
		b.Now += 60_000
		pair := client.All(l.RateLimiter, other).Amounts(1, 10)
		both, err := pair.Reserve(b.Context(), 2, 0)
		b.Want(err)
		b.Want(both.Settle(b.Context(), 3, 35))
		d.wants(b, "2 true 0 false", "15 true 0 false")
		b.Want(ErrOf(pair.Charge(b.Context(), 12)))
		d.wants(b, "12 true 55 false")
	})
}

// A settlement looks at its own records, however many others there are: next to a million it takes less than
// 100 us in Redis. So does a charge, and a settlement that comes again. On a machine that is busy it may take
// as much longer as an acquire of a small limiter does, which takes a quarter of that at most.
func TestSettlingNextToAMillionRecordsIsFast(t *testing.T) {
	redistest.Thorough(t)
	const records, rate = 1_000_000, 2_000_000
	s := redistest.Start(t)
	b := NewBench(t, s.Client(t), s.Admin())
	l := b.NewLimiter(Overall, rate, time.Hour)
	l.Fill(b.Now-100_000, 10, records, 1)
	b.SetKey(l.ValueKey(), rate-records)
	elsewhere := b.NewClient()
	b.Want(b.Look.ConfigSet(t.Context(), "slowlog-log-slower-than", "0").Err())
	left, small := int64(rate-records), b.NewLimiter(Overall, rate, time.Hour)
	for _, c := range []struct {
		name string
		used int64 // of 3 permits, -1 for a charge of 2
	}{{"less", 1}, {"nothing", 0}, {"more", 5}, {"charge", -1}} {
		var first, again, usual []time.Duration
		for range 50 {
			usual = append(usual, inRedis(b, func() error {
				return Yes(small.TryAcquire(t.Context(), 1, 0))
			}))
			if c.used < 0 {
				first = append(first, inRedis(b, func() error { return ErrOf(l.Charge(t.Context(), 2)) }))
				left -= 2
				continue
			}
			r := reserve(l, 3)
			other, err := elsewhere.Reservation(r.ID())
			b.Want(err)
			first = append(first, inRedis(b, func() error { return r.Settle(t.Context(), c.used) }))
			again = append(again, inRedis(b, func() error { return other.Settle(t.Context(), c.used) }))
			left -= c.used
		}
		slices.Sort(usual)
		bound := max(100*time.Microsecond, 4*usual[len(usual)/4])
		for _, took := range [][]time.Duration{first, again} {
			if slices.Sort(took); len(took) > 0 {
				t.Logf("%s: %v in the median, %v at most", c.name, took[len(took)/2], took[len(took)-1])
				if typical := took[len(took)/4]; typical > bound {
					t.Errorf("%s: three of four take more than %v in Redis, want %v", c.name, typical, bound)
				}
			}
		}
	}
	l.HasValue(fmt.Sprint(left))
}

// inRedis returns how long the script that a call runs takes in Redis.
func inRedis(b *Bench, call func() error) time.Duration {
	b.Helper()
	b.Want(b.Look.SlowLogReset(b.Context()).Err())
	b.Want(call())
	for _, entry := range b.Look.SlowLogGet(b.Context(), -1).Val() {
		if strings.EqualFold(entry.Args[0], "evalsha") {
			return entry.Duration
		}
	}
	b.Fatal("no script has run")
	return 0
}
