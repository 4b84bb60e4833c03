package admission_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/admission"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/test/fixtures"
)

// reserved returns a reservation of 5 permits.
func reserved(t *testing.T, a *fixtures.Account) *limit.Reservation {
	t.Helper()
	return redistest.Must(a.Reserve(t.Context(), 5, 0))(t)
}

// Settle settles the reservations of all middleware around a handler, each with the same amount, but none of
// another place or of a request that the handler sends. It returns the first error, and reports each.
func TestSettleReachesEachReservation(t *testing.T) {
	errBroken := errors.New("broken")
	outer, broken := &fixtures.Account{Left: 10}, &fixtures.Account{Left: 10, Fails: errBroken}
	apart, sent := &fixtures.Account{Left: 10}, &fixtures.Account{Left: 10}
	told := 0
	ctx := (&admission.Held{Reservation: reserved(t, outer)}).In(t.Context(), "http")
	ctx = (&admission.Held{Reservation: reserved(t, apart)}).In(ctx, "grpc")
	ctx = (&admission.Held{}).In(ctx, "http") // needs no permits
	ctx = (&admission.Held{Reservation: reserved(t, broken), OnError: func(error) { told++ }}).In(ctx, "http")
	if err := admission.Settle(ctx, "http", []int64{2}); !errors.Is(err, errBroken) || told != 1 {
		t.Errorf("error is %v, told %d times", err, told)
	}
	alone := (&admission.Held{Reservation: reserved(t, sent)}).Alone(ctx, "http")
	redistest.NoError(t, admission.Settle(alone, "http", []int64{1}))
	outer.Wants(t, 8, 2)
	broken.Wants(t, 8, 2)
	apart.Wants(t, 5)
	sent.Wants(t, 9, 1)
	if err := admission.Settle(t.Context(), "http", nil); !errors.Is(err, limit.ErrNoReservation) {
		t.Errorf("error is %v, want ErrNoReservation", err)
	}
}

// A settlement goes on when the caller has left, until its timeout, which its error names.
func TestSettlementsOutliveTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // 1 ms may pass on a busy machine before the settlement is seen
		waits := func(ctx context.Context) {
			if ctx.Err() != nil {
				t.Error(ctx.Err())
			}
			<-ctx.Done()
		}
		a := &fixtures.Account{Left: 10, Fails: context.DeadlineExceeded, Check: waits}
		h := admission.Held{Reservation: reserved(t, a), Timeout: time.Millisecond}
		ended, leave := context.WithCancel(t.Context())
		leave()
		const want = "settling: no answer within 1ms: context deadline exceeded"
		if err := h.Settle(ended, 0); err == nil || err.Error() != want {
			t.Errorf("error is %v", err)
		}
		a.Wants(t, 10, 0)
	})
}
