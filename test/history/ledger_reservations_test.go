package history_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// Nothing is lost of reservations, over a bad network and where callers leave. Only a Client that gives
// back what another one has taken may take it out of a reservation (scripts/parts/find.lua), which then has
// nothing to give back. Records without the mark of a Client are no better.
func TestNothingIsLostOfReservations(t *testing.T) {
	for name, w := range map[string]way{
		"bad network": {reserves: true},
		"leaving":     {reserves: true, leave: true},
		"calm":        {reserves: true, calm: true},
	} {
		t.Run(name, func(t *testing.T) {
			keepLedger(t, w, Overall)
			keepLedger(t, w, PerClient)
		})
	}
}

// visitReserved plays a caller that reserves permits and settles for fewer. The used permits stay out until
// the end.
func (g *books) visitReserved(w way, a *account, random *rand.Rand) {
	l, n := a.at(random), 1+random.Int64N(a.rate/5)
	ctx, leave := context.WithTimeout(context.Background(),
		w.slow*time.Duration(random.IntN(60))*time.Millisecond)
	defer leave()
	timeout := w.slow * time.Duration(random.IntN(3)*10) * time.Millisecond
	r, err := l.Reserve(ctx, n, timeout)
	if !g.counts(w, r != nil, n, err) {
		return
	}
	a.hold(n)
	used := random.Int64N(n)
	if used > 0 && !a.keep(stake{l, used}) {
		used = 0
	}
	elsewhere, err := a.clients[random.IntN(len(a.clients))].Reservation(r.ID())
	g.Want(err)
	g.insists(w, a, n-used, random, func(ctx context.Context) error { return r.Settle(ctx, used) })
	if random.IntN(2) == 0 { // which changes nothing, unless the first settlement was not done
		_ = elsewhere.Settle(context.Background(), used)
	}
}
