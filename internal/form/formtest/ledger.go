package formtest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// ledgers checks each form of an algorithm whose limiters are a Ledger.
func (s Suite) ledgers(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]func(l books){
		"settled to less, the rest comes back, once":    books.settlesToLess,
		"settled to more, the difference is charged":    books.settlesToMore,
		"a settlement frees nothing but its own grant":  books.settlesItsOwn,
		"a settlement after the interval frees nothing": books.settlesLate,
		"a charge leaves a debt until it is paid":       books.charges,
		"a charge drops what cannot be counted":         books.chargesMost,
		"Reserve waits up to its timeout":               books.waits,
		"wrong numbers change nothing":                  books.refusesNumbers,
	} {
		t.Run(name, func(t *testing.T) {
			EachForm(t, s.New(10, time.Hour), func(t *testing.T, l limit.Releaser) {
				check(books{t, ledger(t, l), s})
			})
		})
	}
	t.Run("keys have debts of their own", func(t *testing.T) {
		a := s.New(10, time.Hour)
		debtsApart(t, redistest.Must(a.InMemoryKeyed())(t))
		debtsApart(t, redistest.Must(a.OnRedisKeyed(NewMini(t).Client, "name"))(t))
	})
	t.Run("a debt outlives idle keys in memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := s.New(10, time.Hour)
			want := debtAfterTwoHours(t, redistest.Must(a.OnRedisKeyed(NewMini(t).Client, "name"))(t))
			if got := debtAfterTwoHours(t, redistest.Must(a.InMemoryKeyed())(t)); got != want {
				t.Errorf("a debt of %d in memory, of %d on Redis", got, want)
			}
		})
	})
}

// ledger returns a limiter as a Ledger.
func ledger(t *testing.T, l limit.Releaser) limit.Ledger {
	t.Helper()
	ledger, ok := l.(limit.Ledger)
	if !ok {
		t.Fatalf("%T is no Ledger", l)
	}
	return ledger
}

// debtsApart charges a key, and settles another.
func debtsApart(t *testing.T, l limit.KeyedReleaser) {
	t.Helper()
	k, ok := l.(limit.KeyedLedger)
	if !ok {
		t.Fatalf("%T is no KeyedLedger", l)
	}
	if r := redistest.Must(k.Charge(t.Context(), "one", 15))(t); r.Debt != 5 {
		t.Errorf("a debt of %d, want 5", r.Debt)
	}
	r, _, err := k.TryReserve(t.Context(), "other", 10)
	redistest.NoError(t, err)
	redistest.NoError(t, r.Settle(t.Context(), 3))
	other, err := k.Reserve(t.Context(), "other", 7, 0)
	if none, _ := k.Reserve(t.Context(), "one", 1, 0); none != nil || other == nil || err != nil {
		t.Errorf("the key in debt: %v; the other: %v, %v", none, other, err)
	}
}

// debtAfterTwoHours charges a key, uses another one for two hours, and returns the debt of the first.
func debtAfterTwoHours(t *testing.T, l limit.KeyedReleaser) int64 {
	t.Helper()
	k, ok := l.(limit.KeyedLedger)
	if !ok {
		t.Fatalf("%T is no KeyedLedger", l)
	}
	redistest.Must(k.Charge(t.Context(), "one", 100))(t)
	for range 24 {
		time.Sleep(5*time.Minute + time.Millisecond)
		redistest.Must(k.Allow(t.Context(), "other", 1))(t)
	}
	return redistest.Must(k.Allow(t.Context(), "one", 1))(t).Debt
}

// books are a limiter of 10 in an hour.
type books struct {
	*testing.T
	limit.Ledger
	suite Suite
}

// has expects that n permits are left, by asking for one more.
func (b books) has(n int64) {
	b.Helper()
	if r := Allow(b.T, b.Ledger, n+1, false); r.Remaining != n || r.Debt != 0 {
		b.Errorf("left are %d, and a debt of %d; want %d", r.Remaining, r.Debt, n)
	}
}

// reserved returns a reservation of n permits.
func (b books) reserved(n int64) *limit.Reservation {
	b.Helper()
	r, result, err := b.TryReserve(b.Context(), n)
	if err != nil || r == nil || !result.Allowed {
		b.Fatalf("TryReserve(%d): %v, %+v, %v", n, r, result, err)
	}
	return r
}

// settled settles a reservation.
func (b books) settled(r *limit.Reservation, actual int64) {
	b.Helper()
	redistest.NoError(b, r.Settle(b.Context(), actual))
}

func (b books) settlesToLess() {
	r := b.reserved(6)
	b.has(4)
	b.settled(r, 2)
	b.has(8)
	b.settled(r, 0)
	b.settled(r, 9)
	b.has(8)
	exact := b.reserved(3)
	b.settled(exact, 3)
	redistest.NoError(b, b.reserved(4).Cancel(b.Context()))
	b.has(5)
}

func (b books) settlesToMore() {
	r := b.reserved(6)
	b.settled(r, 9)
	b.has(1)
	b.settled(r, 10)
	b.has(1)
}

// settlesItsOwn settles a grant after permits were taken that come back later.
func (b books) settlesItsOwn() {
	first := b.reserved(4)
	time.Sleep(20 * time.Minute)
	left := b.drain()
	b.settled(first, 0)
	time.Sleep(40*time.Minute + b.suite.Grain)
	if taken := b.drain(); b.suite.Worst == 1 && taken != 10-left {
		b.Errorf("%d permits were taken an hour after the grant, want %d", taken, 10-left)
	}
	if b.suite.Worst*10 < 4+left {
		b.Errorf("%d permits in an hour", 4+left)
	}
}

// drain takes all permits that are left.
func (b books) drain() (taken int64) {
	b.Helper()
	for ; redistest.Must(b.Allow(b.Context(), 1))(b.T).Allowed; taken++ {
		if taken > 100 {
			b.Fatal("no refusal")
		}
	}
	return taken
}

func (b books) settlesLate() {
	r := b.reserved(10)
	time.Sleep(full * time.Hour)
	Allow(b.T, b.Ledger, 10, true)
	b.settled(r, 0)
	Allow(b.T, b.Ledger, 1, false)
}

func (b books) charges() {
	Allow(b.T, b.Ledger, 4, true)
	r := redistest.Must(b.Charge(b.Context(), 21))(b.T)
	if !r.Allowed || r.Debt != 15 || r.Remaining != 0 || r.RetryAfter != 0 {
		b.Errorf("Charge(21) of 6 that are left: %+v", r)
	}
	refused := Allow(b.T, b.Ledger, 1, false)
	if refused.Debt != 15 {
		b.Errorf("a refusal has a debt of %d, want 15", refused.Debt)
	}
	if none, _, err := b.TryReserve(b.Context(), 1); none != nil || err != nil {
		b.Errorf("TryReserve in debt: %v, %v", none, err)
	}
	time.Sleep(refused.RetryAfter - b.suite.Grain)
	Allow(b.T, b.Ledger, 1, false)
	time.Sleep(b.suite.Grain)
	all := Allow(b.T, b.Ledger, 1, true)
	time.Sleep(all.ResetAfter)
	Allow(b.T, b.Ledger, 10, true)
}

func (b books) chargesMost() {
	for range 3 {
		r := redistest.Must(b.Charge(b.Context(), 1<<40))(b.T)
		paid := r.ResetAfter // of 10 an hour, in 10 years or with the window
		if r.Debt < 10*24*365*9 || r.Debt > 1<<40 || paid < time.Hour || paid > 11*366*24*time.Hour {
			b.Errorf("a debt of %d, paid after %v", r.Debt, r.ResetAfter)
		}
	}
	Allow(b.T, b.Ledger, 1, false)
}

func (b books) waits() {
	Allow(b.T, b.Ledger, 10, true)
	due := Allow(b.T, b.Ledger, 10, false).RetryAfter
	start := time.Now()
	r, err := b.Reserve(b.Context(), 10, due-time.Second)
	if r != nil || err != nil || time.Since(start) != 0 {
		b.Errorf("Reserve returns %v, %v after %v; want a refusal at once", r, err, time.Since(start))
	}
	ctx, cancel := context.WithTimeout(b.Context(), time.Second)
	defer cancel()
	_, err = b.Reserve(ctx, 10, full*time.Hour)
	Fails(b.T, context.DeadlineExceeded, err)
	r, err = b.Reserve(b.Context(), 10, full*time.Hour)
	took := time.Since(start)
	if r == nil || err != nil || took < due-b.suite.Grain || took > due+time.Second {
		b.Fatalf("Reserve returns %v, %v after %v; want a reservation after %v", r, err, took, due)
	}
	b.settled(r, 4)
	b.has(6)
}

func (b books) refusesNumbers() {
	for _, n := range []int64{0, -1, 1<<40 + 1} {
		_, err := b.Charge(b.Context(), n)
		Fails(b.T, limit.ErrInvalidArgument, err)
	}
	_, err := b.Reserve(b.Context(), 11, time.Hour)
	Fails(b.T, limit.ErrPermitsExceedRate, err)
	r := b.reserved(4)
	for _, actual := range [][]int64{{-1}, {1<<40 + 1}, {}, {1, 2}} {
		Fails(b.T, limit.ErrInvalidArgument, r.Settle(b.Context(), actual...))
	}
	ended, cancel := context.WithCancel(b.Context())
	cancel()
	Fails(b.T, context.Canceled, r.Settle(ended, 0))
	_, err = b.Charge(ended, 1)
	Fails(b.T, context.Canceled, err)
	b.has(6)
	b.settled(r, 1)
	b.has(9)
}

// settlesOnce swallows the reply of a settlement, which must not take effect twice.
func (b bench) settlesOnce(t *testing.T) {
	for _, tt := range []struct{ actual, left int64 }{{2, 8}, {9, 1}} {
		far, near := b.both(t)
		r, _, err := ledger(t, far).TryReserve(t.Context(), 6)
		redistest.NoError(t, err)
		b.proxy.SwallowReply(1)
		first := r.Settle(t.Context(), tt.actual)
		if again := r.Settle(t.Context(), tt.actual); first == nil || !errors.Is(again, first) {
			t.Errorf("Settle returns %v, then %v; want an error twice", first, again)
		}
		if r := Allow(t, near, 10, false); r.Remaining != tt.left {
			t.Errorf("left are %d, want %d", r.Remaining, tt.left)
		}
	}
}
