package rules

import (
	"context"
	"fmt"

	"github.com/redisson-go/rratelimiter/limit"
)

// Reservation returns the permits of all rules with "settle: true", for a cost that is known later. It is nil
// if no such rule matched. Settle it once with the permits that were used, which replace n times the cost of
// each rule. Without a Settle the estimates count. After an error some limits may have been settled; another
// Settle settles the others.
func (g *Grant) Reservation() *limit.Reservation {
	if len(g.reservations) == 0 {
		return nil
	}
	all := g.reservations
	return limit.NewReservation(nil, func(ctx context.Context, actual []int64) error {
		if len(actual) != 1 || actual[0] < 0 {
			return fmt.Errorf("%w: a call under rules used %v permits, must be one amount of at least 0",
				limit.ErrInvalidArgument, actual)
		}
		return settle(ctx, all, actual[0])
	})
}
