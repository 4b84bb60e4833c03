package limit_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/leakybucket"
	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
)

// promises are those of every algorithm, of 10 permits in an hour.
var promises = map[string]string{
	"released permits can be taken again, once": "" +
		"release 3; take 10; refuse 1; release 10; take 10; sleep 1m; release 10; release 10; take 10; " +
		"refuse 1; release 0 invalid; release -1 invalid; release -9223372036854775808 invalid; refuse 1",
	"the key lives until all permits are back": "" +
		"take 5; redis PTTL KEY = 1799999..7200001; sleep reset; sleep 1s; redis DBSIZE = 0",
	"a look takes nothing": "" +
		"see some left 10 reset 0; take 10; 10x see none left 0; sleep retry; see some left 1..10; take 1",
}

// lenderPromises are those of every Ledger, and of leases.
var lenderPromises = map[string]string{
	"a grant is returned as far as it is out": "" +
		"take 10 as first; back 10 first; take 10 as first; refuse 1; sleep reset; sleep grain; " +
		"take 10 as second; back 10 first; refuse 1; sleep 1m; back 10 second; take 9 as third; " +
		"back 9 third; take 10",
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
			var of formtest.Algorithm
			synctest.Test(t, func(*testing.T) { of = a.suite.New(10, time.Hour) }) // at the time of a Play
			play := formtest.Play{Algorithms: map[string]formtest.Algorithm{"": of}, Grain: a.suite.Grain}
			play.Tell(t, promises)
			l := redistest.Must(of.InMemory())(t).Limiter
			if _, ok := l.(formtest.Lender); ok {
				play.Tell(t, lenderPromises)
			}
			if _, ok := l.(limit.Ledger); ok {
				play.Tell(t, ledgerPromises)
			}
		})
	}
}

// bucketPromises are those of limits of 10 in an hour whose permits come back one by one.
var bucketPromises = map[string]string{
	"Return leaves out the part that has come back": "" +
		"take 4 as a; sleep 12m; take 8; back 4 a; refuse 3; take 2",
	"a clock set to and fro by a permit's time grants each once": "" +
		"take 10; " + strings.Repeat("clock 6m; try 1; clock -6m; try 1; ", 5) + "granted 11",
	"set back by a day, a full bucket leaks as ever": "" +
		"take 1; clock -24h; refuse 1 retry 6m; sleep 2m; refuse 1 retry 4m; sleep 58m; take 10",
}

func TestBucketPromises(t *testing.T) {
	for _, a := range []formtest.Algorithm{
		formtest.Of(tokenbucket.Bucket{Capacity: 10, Rate: 10, Interval: time.Hour}),
		formtest.Of(leakybucket.Meter{Capacity: 10, Rate: 10, Interval: time.Hour}),
	} {
		formtest.Tell(t, a, bucketPromises)
	}
}

// A Meter grants in 30 days of odd steps what exact arithmetic does, except that permits due within a
// microsecond may come in it. (A Bucket has the tokens of golang.org/x/time/rate.)
func TestMetersHaveNoDriftInThirtyDays(t *testing.T) {
	for _, tt := range []struct{ capacity, permits, in int64 }{ // in µs
		{5, 1, 2e6}, {1, 1, 3e6}, {100, 7, 60e6}, {3, 1, 10e6}, {10, 29, 31e6},
	} {
		epoch := time.Unix(1_700_000_000, 0)
		now := epoch
		m := leakybucket.Meter{Capacity: tt.capacity, Rate: tt.permits,
			Interval: time.Duration(tt.in) * time.Microsecond}
		l := redistest.Must(m.InMemory(limit.WithClock(func() time.Time { return now })))(t)
		exact := tt.capacity * tt.in // in units of which permits come in a µs
		random := rand.New(rand.NewPCG(30, 0))
		for now.Sub(epoch) < 30*24*time.Hour {
			odd := 1 + random.Int64N(2*tt.in/tt.permits)
			now = now.Add(time.Duration(odd) * time.Microsecond)
			exact = min(exact+odd*tt.permits, tt.capacity*tt.in)
			over := exact - tt.in
			r, err := l.Allow(t.Context(), 1)
			if err != nil || r.Allowed != (over >= 0) && max(over, -over) > tt.permits {
				t.Fatalf("%+v, after %v: %+v %v, exactly %d", tt, now.Sub(epoch), r, err, exact)
			}
			if r.Allowed {
				exact -= tt.in
			}
		}
	}
}

// Foreign numbers, in the right form, under the key of a limiter of 10 in an hour count as a limit at most,
// and are gone after two hours: their key expires then. They are a level and a time.
func TestBucketsBearForeignNumbers(t *testing.T) {
	nines := strings.Repeat("9", 300)
	for key, a := range map[string]formtest.Algorithm{
		"{name}:tokenbucket": formtest.Of(tokenbucket.Bucket{Capacity: 10, Rate: 10, Interval: time.Hour}),
		"{name}:leakybucket": formtest.Of(leakybucket.Meter{Capacity: 10, Rate: 10, Interval: time.Hour}),
		"{name}:leakyqueue":  formtest.Of(leakybucket.Queue{Rate: 10, Interval: time.Hour, Capacity: 10}),
	} {
		promises := map[string]string{}
		for _, text := range []string{
			"0_1", "-1_1", "-1e300_1", "1e300_1", "1e999_1", "-1e999_1", "0_9007199254740993", "5_" + nines,
			"5_9" + nines, "1e300_9007199254740993", "-_1", "e_1", "0_0", "-0_0", "5_2000000000000000",
			"1e14_946684800000000", "-1e14_946684800000000", // nothing is left now
			"0_946684800000000", "10_946684800000000", "1e9_946684800000000",
		} {
			if key == "{name}:leakyqueue" {
				text += "_9007199254740993"
			}
			promises[text] = "redis SET " + key + " " + text + "; " +
				"30x try 1 left 0..10 retry 0s..2h reset 0s..2h; granted 0..10; " +
				"redis PTTL KEY = 1..7200001; sleep 2h; take 10"
		}
		formtest.Tell(t, a, promises)
	}
}
