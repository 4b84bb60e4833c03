package reservations_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// settlements says what is taken of each limiter after Reserve(ctx, 2) and a Settle: the permits that it
// names, which Amounts does not multiply. A single number holds for every limiter, unless the amounts differ.
var settlements = []struct {
	amounts []int64 // nil: without Amounts
	settled []int64
	taken   []int64 // nil: the number of amounts is refused, and what was reserved is taken
	bound   string
}{
	{[]int64{500}, []int64{120}, []int64{120}, ""}, // the case that charged 60,000
	{[]int64{500}, []int64{0}, []int64{0}, ""},
	{[]int64{500}, []int64{1000}, []int64{1000}, ""},
	{[]int64{500}, []int64{1001}, []int64{1001}, ""},
	{[]int64{500}, []int64{12_000}, []int64{12_000}, ""},
	{[]int64{500}, []int64{1, 120}, nil, "is 2, must be 1"},
	{[]int64{1}, []int64{1}, []int64{1}, ""},
	{[]int64{1}, []int64{3}, []int64{3}, ""},
	{nil, []int64{1}, []int64{1, 1}, ""},
	{nil, []int64{3, 0}, []int64{3, 0}, ""},
	{nil, []int64{2}, []int64{2, 2}, ""},
	{nil, []int64{7}, []int64{7, 7}, ""},
	{[]int64{500, 500}, []int64{120}, []int64{120, 120}, ""},
	{[]int64{500, 500}, []int64{12_000}, []int64{12_000, 12_000}, ""},
	{[]int64{500, 500}, []int64{120, 1001}, []int64{120, 1001}, ""},
	{[]int64{500, 500}, []int64{1, 2, 3}, nil, "is 3, must be 1 or 2 (one for each limiter)"},
	{[]int64{1, 500}, []int64{1, 120}, []int64{1, 120}, ""},
	{[]int64{1, 500}, []int64{3, 12_000}, []int64{3, 12_000}, ""},
	{[]int64{1, 500}, []int64{2, 1000}, []int64{2, 1000}, ""},
	{[]int64{1, 500}, []int64{0}, []int64{0, 0}, ""},
	{[]int64{1, 500}, []int64{120}, nil,
		"is 1, must be 2, one for each limiter, because their Amounts differ"},
	{[]int64{1, 500}, nil, nil, "is 0, must be 2, one for each limiter, because their Amounts differ"},
}

func TestSettleNamesThePermitsOfEachLimiter(t *testing.T) {
	for _, row := range settlements {
		members := max(1, len(row.amounts), len(row.taken))
		amounts := slices.Repeat([]int64{1}, members)
		copy(amounts, row.amounts)
		for _, byID := range []bool{false, true} {
			t.Run(fmt.Sprint(row.amounts, row.settled, byID), func(t *testing.T) {
				OnBoth(t, func(b *Bench) {
					limiters, g := several(b, members, row.amounts)
					r, err := g.Reserve(b.Context(), 2, 0)
					b.Want(err)
					if byID {
						r, err = b.NewClient().Reservation(r.ID())
						b.Want(err)
					}
					err = r.Settle(b.Context(), row.settled...)
					taken := row.taken
					if taken == nil {
						WantErr(b, err, rratelimiter.ErrInvalidArgument, "the number of amounts "+row.bound)
						for _, amount := range amounts {
							taken = append(taken, 2*amount)
						}
					} else {
						b.Want(err)
					}
					for i, l := range limiters {
						keeps(l, 10_000, 10_000-taken[i])
					}
				})
			})
		}
	}
}

// Calls that take permits multiply by the amounts: Charge, which is never settled, as Allow does. Cancel
// returns everything.
func TestAmountsMultiplyWhatIsTaken(t *testing.T) {
	calls := map[string]func(ctx context.Context, g *rratelimiter.Group) error{
		"Allow":  func(ctx context.Context, g *rratelimiter.Group) error { return ErrOf(g.Allow(ctx, 3)) },
		"Charge": func(ctx context.Context, g *rratelimiter.Group) error { return ErrOf(g.Charge(ctx, 3)) },
		"Reserve": func(ctx context.Context, g *rratelimiter.Group) error {
			return ErrOf(g.Reserve(ctx, 3, 0))
		},
		"Reserve, Cancel": func(ctx context.Context, g *rratelimiter.Group) error {
			if err := ErrOf(g.Reserve(ctx, 3, 0)); err != nil {
				return err
			}
			r, err := g.Reserve(ctx, 5, 0)
			if err != nil {
				return err
			}
			return r.Cancel(ctx)
		},
	}
	for what, call := range calls {
		for _, amounts := range [][]int64{nil, {500}, {500, 500}, {1, 500}} {
			t.Run(fmt.Sprint(what, amounts), func(t *testing.T) {
				OnBoth(t, func(b *Bench) {
					members := len(amounts)
					if amounts == nil {
						members = 2
					}
					limiters, g := several(b, members, amounts)
					b.Want(call(b.Context(), g))
					for i, l := range limiters {
						amount := int64(1)
						if amounts != nil {
							amount = amounts[i]
						}
						l.HasTaken(3 * amount)
					}
				})
			})
		}
	}
}

// several returns limiters of 10,000 an hour and their Group, with amounts unless they are nil.
func several(b *Bench, members int, amounts []int64) (limiters []*Limiter, g *rratelimiter.Group) {
	b.Helper()
	var all []*rratelimiter.RateLimiter
	for range members {
		limiters = append(limiters, b.NewLimiter(Overall, 10_000, time.Hour))
		all = append(all, limiters[len(limiters)-1].RateLimiter)
	}
	if g = b.Client.All(all...); amounts != nil {
		g = g.Amounts(amounts...)
	}
	return limiters, g
}
