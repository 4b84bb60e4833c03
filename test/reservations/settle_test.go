package reservations_test

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// reserve reserves permits, which are there.
func reserve(l *Limiter, permits int64) *rratelimiter.Reservation {
	l.Helper()
	r, err := l.Reserve(l.Context(), permits, 0)
	if r == nil || err != nil {
		l.Fatalf("reserve %d at %d: %v, %v", permits, l.Now, r, err)
	}
	return r
}

// settle settles a reservation.
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

// If less was used, the rest is there at once; if more was used, the difference is taken; if the estimate was
// right, nothing changes.
func TestSettleCorrectsAnEstimate(t *testing.T) {
	EachFormat(t, func(b *Bench, opts ...rratelimiter.Option) {
		l := b.NewLimiter(Overall, 10, time.Second).With(opts...)
		for _, v := range []struct{ used, left int64 }{
			{4, 6}, {0, 10}, {7, 3}, {9, 1}, {12, -2}, {10000, -9990},
		} {
			b.Now += 2000
			r := reserve(l, 7)
			keeps(l, 10, 3)
			settle(l, r, v.used)
			keeps(l, 10, v.left)
			l.Has(max(0, v.left))
			settle(l, r, 1)
			settle(l, r, 20)
			keeps(l, 10, v.left)
		}
	})
}

// A reservation is refused as other acquires are, without an error.
func TestReserveIsRefused(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 10, time.Second)
		l.Takes(4)
		if r, err := l.Reserve(b.Context(), 7, 0); r != nil || err != nil {
			t.Errorf("%v, %v; want it refused", r, err)
		} else if err := r.Settle(b.Context(), 1); !errors.Is(err, rratelimiter.ErrInvalidArgument) {
			t.Errorf("Settle of what was refused: %v, want ErrInvalidArgument", err)
		}
		r, err := l.Reserve(b.Context(), 11, 0)
		if r != nil || !errors.Is(err, rratelimiter.ErrPermitsExceedRate) {
			t.Errorf("%v, %v; want ErrPermitsExceedRate", r, err)
		}
		l.Has(6)
	})
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
		settle(l, r, 2)
		keeps(l, 10, 8)
	})
}

// After its interval a reservation has nothing left to give back: what was used beyond it is charged, from
// then on.
func TestSettlingLateFreesNothing(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 10, time.Second)
		early, late, over := reserve(l, 3), reserve(l, 3), reserve(l, 3)
		b.Now += 999
		settle(l, early, 1)
		l.Has(3)
		b.Now++
		l.Takes(9)
		settle(l, late, 0)
		l.Has(1)
		settle(l, over, 5)
		keeps(l, 10, -1)
		b.Now += 999
		l.Has(0)
		b.Now++
		l.Has(10)
	})
}

// The example of issue 27: what is settled late is not granted twice, as a late Release may do.
func TestNoIntervalHasMoreThanTheRate(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 10_000, 6*time.Second)
		a := reserve(l, 3500)
		b.Now += 5000
		l.Takes(6500)
		settle(l, a, 1200)
		b.Now += 500
		l.Takes(2300)
		b.Now += 700
		l.Takes(1200)
		l.Refused(1, 4800*time.Millisecond)
	})
}

// A Release leaves reservations alone while the Client has other records.
func TestReleaseLeavesReservationsAlone(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 10, time.Second)
		l.Takes(3)
		b.Now += 500
		r := reserve(l, 5)
		l.Gives(3)
		keeps(l, 10, 5)
		settle(l, r, 1)
		keeps(l, 10, 9)
		b.Now += 999
		l.Has(9)
		b.Now++
		l.Has(10)
	})
}

// Charge is never refused. Acquires wait until the debt is paid, an interval after the charge.
func TestChargeMakesADebt(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 10, time.Second)
		l.Takes(4)
		b.Now += 400
		r, err := l.Charge(b.Context(), 5)
		b.Want(err)
		if !r.Allowed || r.Remaining != 1 || r.Debt != 0 || r.ResetAfter != time.Second {
			t.Errorf("%+v", r)
		}
		r, err = l.Charge(b.Context(), 25)
		b.Want(err)
		if r.Remaining != 0 || r.Debt != 24 || r.Limit != 10 {
			t.Errorf("%+v; want a debt of 24", r)
		}
		keeps(l, 10, -24)
		l.Refused(1, time.Second)
		if r, err := l.Peek(b.Context()); err != nil || r.Debt != 24 {
			t.Errorf("%+v, %v; want a debt of 24", r, err)
		}
		b.Now += 600
		l.Refused(1, 400*time.Millisecond)
		b.Now += 400
		l.Takes(10)
	})
}

// A charge may be as large as 2^40, which needs 257 records.
func TestTheLargestCharge(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 10, time.Second)
		const most = 1 << 40
		r, err := l.Charge(b.Context(), most)
		b.Want(err)
		if r.Debt != most-10 {
			t.Errorf("a debt of %d", r.Debt)
		}
		if _, err := l.Charge(b.Context(), most+1); !errors.Is(err, rratelimiter.ErrInvalidArgument) {
			t.Errorf("2^40 + 1: %v", err)
		}
		if _, err := l.Charge(b.Context(), 0); !errors.Is(err, rratelimiter.ErrInvalidArgument) {
			t.Errorf("0: %v", err)
		}
		keeps(l, 10, 10-most)
		b.Now += 1000
		l.Takes(10)
	})
}

// A reservation of more than a record holds has several, and gives back of the last ones first.
func TestALargeReservation(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		const rate = 1 << 41
		l := b.NewLimiter(Overall, rate, time.Second)
		for _, used := range []int64{1 << 39, 0, 1<<40 - 1, 1} {
			b.Now += 2000
			r := reserve(l, 1<<40)
			again, err := b.Client.Reservation(r.ID())
			b.Want(err)
			settle(l, r, used)
			keeps(l, rate, rate-used)
			settle(l, again, used)
			settle(l, again, 0)
			if again, err = b.Client.Reservation(r.ID()); used < 1<<40-1 {
				b.Want(err)
				settle(l, again, used/2)
				keeps(l, rate, rate-used)
			}
		}
		b.Now += 2000
		r := reserve(l, 1<<39)
		settle(l, r, 1<<40)
		keeps(l, rate, rate-1<<40)
	})
}

// Another process settles a reservation by its ID. It is settled once, whoever does it.
func TestAReservationIsSettledByItsID(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 10, time.Second)
		for _, used := range []int64{0, 4, 6, 9, 13} {
			b.Now += 2000
			r := reserve(l, 6)
			other := b.NewClient()
			for _, amount := range []int64{used, 0, 20, 3} {
				elsewhere, err := other.Reservation(r.ID())
				b.Want(err)
				// Redis does not know of the first one, or may charge again.
				if used == 6 && amount != used || used < 6 && amount == 20 {
					continue
				}
				settle(l, elsewhere, amount)
				l.HasValue(fmt.Sprint(10 - used))
			}
		}
	})
}

// A Keyed reserves and charges, and its calls set the rate where none is set. A reservation whose limiter has
// expired has nothing to give back; what was used beyond it is charged.
func TestKeyedReserves(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		k := b.Client.Keyed("tokens", 10, time.Second)
		if r, err := k.Charge(b.Context(), "one", 12); err != nil || r.Debt != 2 {
			t.Errorf("%+v, %v; want a debt of 2", r, err)
		}
		r, err := k.Reserve(b.Context(), "two", 7, 0)
		b.Want(err)
		l := b.Wrap(k.RateLimiter("two"))
		l.Has(3)
		_, err = l.Delete(b.Context())
		b.Want(err)
		elsewhere, err := b.NewClient().Reservation(r.ID())
		b.Want(err)
		settle(l, r, 2)
		if there, err := l.Exists(b.Context()); there || err != nil {
			t.Errorf("%v, %v; want no limiter", there, err)
		}
		settle(l, elsewhere, 12)
		l.Has(5)
		r, result, err := k.TryReserve(b.Context(), "two", 6)
		refused := r == nil && !result.Allowed && result.Remaining == 5 && result.RetryAfter == time.Second
		if !refused || err != nil {
			t.Errorf("%v, %+v, %v; want it refused for 1 s", r, result, err)
		}
		r, result, err = k.TryReserve(b.Context(), "two", 4)
		if r == nil || err != nil || !result.Allowed || result.Remaining != 1 {
			t.Errorf("%v, %+v, %v; want 1 left", r, result, err)
		}
		settle(l, r, 1)
		l.Has(4)
	})
}

// A Group settles each limiter by its own amount, in one call.
func TestAGroupSettlesEachLimiter(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		requests := b.NewLimiter(Overall, 5, time.Minute)
		tokens := b.NewLimiter(PerClient, 10_000, time.Minute)
		g := b.Client.All(requests.RateLimiter, tokens.RateLimiter).Amounts(1, 3500)
		r, err := g.Reserve(b.Context(), 1, 0)
		b.Want(err)
		requests.Has(4)
		tokens.Has(6500)
		if err := r.Settle(b.Context(), 1, 2, 3); !errors.Is(err, rratelimiter.ErrInvalidArgument) {
			t.Errorf("three amounts for two limiters: %v", err)
		}
		calls := b.CountScripts()
		b.Want(r.Settle(b.Context(), 1, 1200))
		if n := calls(); n != 1 {
			t.Errorf("%d script calls, want 1", n)
		}
		requests.Has(4)
		tokens.Has(8800)
		r, err = g.Reserve(b.Context(), 2, 0)
		b.Want(err)
		b.Want(r.Cancel(b.Context()))
		requests.Has(4)
		tokens.Has(8800)
		if r, err := g.Charge(b.Context(), 4); err != nil || r.Debt != 5200 || r.Name != tokens.Name() {
			t.Errorf("%+v, %v; want a debt of 5200 tokens", r, err)
		}
		requests.Has(0)
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

// A settlement charges what was used beyond a reservation at the rate that is set by now: a rate that came
// with the reservation is outdated, and does not replace it. Where none is set any more, it sets it.
func TestSettleKeepsARateThatWasSetMeanwhile(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 0, 0)
		old := b.Wrap(l.WithRate(10, time.Minute))
		for _, elsewhere := range []bool{false, true} {
			r := reserve(old, 4)
			b.Want(l.SetRate(b.Context(), Overall, 20, time.Minute))
			if elsewhere {
				var err error
				r, err = b.NewClient().Reservation(r.ID())
				b.Want(err)
			}
			settle(l, r, 6)
			keeps(l, 20, 18)
		}
		r := reserve(old, 4)
		b.Want(ErrOf(l.Delete(b.Context())))
		settle(l, r, 6)
		keeps(l, 10, 8)
	})
}
