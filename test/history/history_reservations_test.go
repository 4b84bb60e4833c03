package history_test

import (
	"context"
	"math/rand/v2"

	"github.com/redisson-go/rratelimiter"
)

// mostIDs is how many reservations a history has: a bit each.
const mostIDs = 64

// reserves charges, or reserves and settles, by one process or by two.
func (h *history) reserves(a asked, random *rand.Rand) {
	ctx := context.Background()
	id := h.ids.Add(1) - 1
	if id >= mostIDs || random.IntN(4) == 0 {
		a.kind = charges
		h.does(a, func() told {
			r, err := h.limiter[a.client].Charge(ctx, a.n)
			t := h.told(err)
			if err == nil && !h.vague {
				t.left, t.debt = r.Remaining, r.Debt
			}
			return t
		})
		return
	}
	a.kind, a.id = reserves, 1<<id
	var reserved *rratelimiter.Reservation
	h.does(a, func() (t told) {
		r, result, err := h.limiter[a.client].TryReserve(ctx, a.n)
		t = h.told(err)
		if reserved, t.ok = r, r != nil; err == nil && !h.vague {
			t.left, t.limit = result.Remaining, result.Limit
		}
		return t
	})
	if reserved == nil {
		return
	}
	a.kind, a.used = settles, random.Int64N(a.n+3)
	h.settle(a, reserved)
	if random.IntN(2) == 0 {
		a.used = random.Int64N(a.n + 1)
		h.settle(a, reserved)
	}
}

// settle settles until it is known that it was done.
func (h *history) settle(a asked, r *rratelimiter.Reservation) {
	h.does(a, func() told {
		err := r.Settle(context.Background(), a.used)
		for range 100 {
			if err == nil {
				break
			}
			err = r.Settle(context.Background(), a.used)
		}
		return h.told(err)
	})
}
