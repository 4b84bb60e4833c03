package history_test

import (
	"context"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
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

// Callers that reserve, settle and charge get what they would get one by one, also over a line that loses
// replies. Settled twice, by whichever amount, the first settlement counts.
func TestReservationsAtOnceAreSettledAsOneByOne(t *testing.T) {
	s := redistest.Start(t)
	for name, losing := range map[string]bool{"all replies come": false, "replies are lost": true} {
		t.Run(name, func(t *testing.T) {
			p := redistest.StartProxy(t, s.Addr)
			rdb := redis.NewClient(&redis.Options{Addr: p.Addr, MaxRetries: 20, MinRetryBackoff: 1,
				MaxRetryBackoff: time.Millisecond})
			t.Cleanup(func() { _ = rdb.Close() })
			if losing {
				var random atomic.Uint64
				p.SwallowReplyTo(math.MaxInt, func(args []string) bool {
					return runsScript(args) && random.Add(0x9E3779B97F4A7C15)>>32%20 == 0
				})
			}
			untold, many, reserved := 0, redistest.Rounds(t, 20), int64(0)
			for i := range many {
				h := newHistory(t, rdb, frozen, 1+i%3)
				h.vague, h.settles, h.spares = losing, true, []kind{sets}
				h.runs(6 / len(h.limiter))
				if !h.check() {
					untold++
				}
				reserved += h.ids.Load()
			}
			if untold > many/4 || reserved < int64(many)*10 {
				t.Errorf("%d of %d histories were not decided; %d reservations", untold, many, reserved)
			}
		})
	}
}
