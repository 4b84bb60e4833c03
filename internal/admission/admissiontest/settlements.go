package admissiontest

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/test/fixtures"
)

// A Settlement is a request whose cost is an estimate, and what it is charged in the end.
type Settlement struct {
	Name    string
	Cost    int64
	Shadow  bool    // the limit refuses, in shadow mode
	Settles []int64 // the handler calls Settle with each
	Panics  bool    // the handler panics after that
	Actual  []int64 // what WithActual returns, nil without that option
	Fails   error   // the error of each settlement

	left    int64 // of 100 permits
	settled []int64
}

var settlements = []Settlement{
	{Name: "settled", Cost: 10, Settles: []int64{3, 9}, left: 97, settled: []int64{3}},
	{Name: "free", Cost: 10, Settles: []int64{0}, left: 100, settled: []int64{0}},
	{Name: "more", Cost: 10, Settles: []int64{120}, left: -20, settled: []int64{120}},
	{Name: "not settled", Cost: 10, left: 90},
	{Name: "WithActual", Cost: 10, Actual: []int64{5}, left: 95, settled: []int64{5}},
	{Name: "both", Cost: 10, Settles: []int64{7}, Actual: []int64{5}, left: 93, settled: []int64{7}},
	{Name: "unknown", Cost: 10, Actual: []int64{-1}, left: 90},
	{Name: "a panic", Cost: 10, Panics: true, Actual: []int64{2}, left: 90, settled: []int64{10}},
	{Name: "a panic, more", Cost: 10, Panics: true, Actual: []int64{12}, left: 88, settled: []int64{12}},
	{Name: "a panic, unknown", Cost: 10, Panics: true, Actual: []int64{-1}, left: 90},
	{Name: "failed", Cost: 10, Settles: []int64{0}, Fails: ErrSecret, left: 100, settled: []int64{0}},
	{Name: "failed later", Cost: 10, Actual: []int64{0}, Fails: ErrSecret, left: 100, settled: []int64{0}},
	{Name: "no permits", Settles: []int64{3}, Actual: []int64{5}, left: 100},
	{Name: "refused", Cost: 101, Shadow: true, Settles: []int64{3}, Actual: []int64{5}, left: 100},
}

// PlaySettlements plays each Settlement with the Settle function of a protocol. serve serves a request, and
// returns the errors that the hook received.
func PlaySettlements(
	t *testing.T, settle func(context.Context, ...int64) error,
	serve func(*testing.T, Settlement, limit.Keyed[*fixtures.Account], func(context.Context)) (told []error),
) {
	for _, s := range settlements {
		t.Run(s.Name, func(t *testing.T) {
			a := &fixtures.Account{Left: 100, Fails: s.Fails}
			handler := func(ctx context.Context) {
				for _, n := range s.Settles {
					if err := settle(ctx, n); !errors.Is(err, s.Fails) {
						t.Errorf("Settle: %v", err)
					}
				}
				if s.Panics {
					panic(http.ErrAbortHandler)
				}
			}
			var told []error
			defer func() {
				if p := recover(); (p != nil) != s.Panics {
					t.Errorf("a panic of %v", p)
				}
				a.Wants(t, s.left, s.settled...)
				if len(told) > 0 != (s.Fails != nil) || told != nil && !errors.Is(told[0], s.Fails) {
					t.Errorf("the hook received %v, want %v", told, s.Fails)
				}
			}()
			told = serve(t, s, limit.Shared(a), handler)
		})
	}
}
