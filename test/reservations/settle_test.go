package reservations_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
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
