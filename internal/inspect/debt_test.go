package inspect_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A debt is no fault if value and records agree. It is paid when as many permits have come back; a permit may
// be there only later.
func TestADebtIsNoFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		for i := range 2 {
			l := limiter(t, rdb, rratelimiter.RateType(i), 10, 10*time.Second)
			holds := func(remaining, debt, paid, one int64) {
				t.Helper()
				got := look(t, rdb, l.Name(), "me")
				p := got.InUse()[0]
				if !got.Holds() || len(got.Findings) > 0 || !p.Checked || p.Drift != 0 {
					t.Errorf("found %+v", got.Findings)
				}
				if p.Remaining != remaining || p.Debt != debt || p.PaidIn != paid || p.Back[0].In != one {
					t.Errorf("%d remain, a debt of %d is paid in %d, back %v",
						p.Remaining, p.Debt, p.PaidIn, p.Back)
				}
				for _, r := range p.Records {
					if !r.ByGo || r.Format == "" {
						t.Errorf("%+v", r)
					}
				}
			}
			r := redistest.Must(l.Reserve(t.Context(), 7, 0))(t)
			holds(3, 0, 0, 0)
			redistest.NoError(t, r.Settle(t.Context(), 12))
			holds(0, 2, 10_000, 10_000)
			time.Sleep(time.Second)
			redistest.Must(l.Charge(t.Context(), 10))(t)
			holds(0, 12, 9000, 10_000)
			time.Sleep(9 * time.Second)
			holds(0, 0, 0, 1000)
			time.Sleep(time.Second)
			holds(10, 0, 0, 0)
			redistest.Must(l.Charge(t.Context(), 1<<40))(t) // the most, in many records
			holds(0, 1<<40-10, 10_000, 10_000)
			time.Sleep(10 * time.Second)
		}
	})
}

// A lower rate may make a debt. If not all records are read, it is that of the value.
func TestADebtOfALowerRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		l := limiter(t, rdb, rratelimiter.Overall, 100, 10*time.Second)
		for range 10 {
			take(t, l, 10)
			time.Sleep(100 * time.Millisecond)
		}
		redistest.NoError(t, l.SetRate(t.Context(), rratelimiter.Overall, 20, 10*time.Second,
			rratelimiter.WithKeepState()))
		for records, paid := range map[int]int64{inspect.Few: 9700, 4: inspect.Unknown} {
			got := redistest.Must(inspect.Read(t.Context(), rdb, l.Name(), records))(t)
			if p := got.Shared(); !got.Holds() || p.Debt != 80 || p.Outstanding != 100 || p.PaidIn != paid {
				t.Errorf("%d records: %+v, %+v", records, p, got.Findings)
			}
		}
	})
}
