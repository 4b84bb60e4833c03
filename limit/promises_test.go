package limit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// promises are those of every algorithm, of 10 permits in an hour.
var promises = map[string]string{
	"released permits can be taken again, once": "" +
		"release 3; take 10; refuse 1; release 10; take 10; sleep 1m; release 10; release 10; take 10; " +
		"refuse 1; release 0 invalid; release -1 invalid; release -9223372036854775808 invalid; refuse 1",
	"a look takes nothing": "" +
		"see some left 10 reset 0; take 10; 10x see none left 0; sleep retry; see some left 1..10; take 1",
	"a grant is returned as far as it is out": "" +
		"take 10 as first; back 10 first; take 10 as first; refuse 1; sleep reset; sleep grain; " +
		"take 10 as second; back 10 first; refuse 1; sleep 1m; back 10 second; take 9 as third; " +
		"back 10 third; take 10",
}

// ledgerPromises are those of every Ledger, of 10 permits in an hour.
var ledgerPromises = map[string]string{
	"settled to less, the rest comes back, once": "" +
		"reserve 6 as a; refuse 5 left 4; settle a 2; refuse 9 left 8; settle a 0; settle a 9; " +
		"refuse 9 left 8; reserve 3 as b; settle b 3; reserve 4 as c; settle c none; refuse 6 left 5 debt 0",
	"settled to more, the difference is charged, once": "" +
		"reserve 6 as a; settle a 9; refuse 2 left 1; settle a 10; refuse 2 left 1",
	"a settlement after the interval frees nothing": "" +
		"reserve 10 as a; sleep 2h; take 10; settle a 0; refuse 1",
	"a charge leaves a debt until it is paid": "" +
		"take 4; charge 21 left 0 debt 15 retry 0; refuse 1 debt 15; deny 1; sleep retry-grain; refuse 1; " +
		"sleep grain; take 1; sleep reset; take 10",
	"a charge drops what cannot be paid in 10 years": "" +
		"3x charge 1099511627776 debt 788400..1099511627776 reset 1h..96624h; refuse 1",
	"Reserve waits up to its timeout": "" +
		"take 10; refuse 10; deny 10 retry-1s; at 0; deny 10 2h late; at 1s; reserve 10 2h as a; " +
		"at retry-grain..retry; settle a 4; refuse 7 left 6",
	"wrong numbers change nothing": "" +
		"charge 0 invalid; charge -1 invalid; charge 1099511627777 invalid; reserve 11 1h exceeds; " +
		"reserve 4 as a; settle a -1 invalid; settle a 1099511627777 invalid; settle a invalid; " +
		"settle a 1 2 invalid; settle a 0 ended; charge 1 ended; refuse 7 left 6; settle a 1; " +
		"refuse 10 left 9",
	"keys have debts of their own": "" +
		"one: charge 15 debt 5; other: reserve 10 as a; other: settle a 3; other: reserve 7 0s; " +
		"one: deny 1 0s",
	"a debt outlives idle keys in memory": "" +
		"one: charge 100; " + strings.Repeat("sleep 5m0.001s; other: try 1; ", 24) + "one: try 1",
}

func TestPromises(t *testing.T) {
	for _, a := range algorithms {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			of := a.suite.New(10, time.Hour)
			play := formtest.Play{Algorithms: map[string]formtest.Algorithm{"": of}, Grain: a.suite.Grain}
			play.Tell(t, promises)
			if _, ok := redistest.Must(of.InMemory())(t).(limit.Ledger); ok {
				play.Tell(t, ledgerPromises)
			}
		})
	}
}
