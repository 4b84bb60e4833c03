package slidingwindow_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

func TestFormsOfManyPartsDecideAlike(t *testing.T) {
	for _, parts := range []int{3, 100} {
		formtest.Alike(t, formtest.Suite{New: counterOf(parts), Worst: 2})
	}
}

type maker = func(rate int64, interval time.Duration) formtest.Algorithm

func log(rate int64, interval time.Duration) formtest.Algorithm {
	return formtest.Of(slidingwindow.Log{Rate: rate, Interval: interval})
}

func counterOf(parts int) maker {
	return func(rate int64, interval time.Duration) formtest.Algorithm {
		return formtest.Of(slidingwindow.Counter{Rate: rate, Interval: interval, Parts: parts})
	}
}

func TestBounds(t *testing.T) {
	formtest.Refuses(t, map[string]slidingwindow.Log{
		"Rate is 0":              {Interval: time.Second},
		"Interval is 0s":         {Rate: 1},
		"Interval is 87840h0m1s": {Rate: 1, Interval: 3660*24*time.Hour + time.Second},
	})
	formtest.Refuses(t, map[string]slidingwindow.Counter{
		"Rate is -1":              {Rate: -1, Interval: time.Second},
		"Rate is 1099511627777":   {Rate: 1<<40 + 1, Interval: time.Second},
		"Interval is 999.999µs":   {Rate: 1, Interval: time.Millisecond - 1},
		"Parts is -1, must be 0 ": {Rate: 1, Interval: time.Second, Parts: -1},
		"Parts is 101, must be 0": {Rate: 1, Interval: time.Second, Parts: 101},
	})
}

// each runs a test for a Log and for Counters.
func each(t *testing.T, test func(t *testing.T, of maker)) {
	t.Helper()
	for name, of := range map[string]maker{
		"Log": log, "Counter": counterOf(0), "Counter of 1 part": counterOf(1),
	} {
		t.Run(name, func(t *testing.T) { test(t, of) })
	}
}

// A Return that comes late, or finds its grant among many, gives back its own grant, and once.
func TestReturn(t *testing.T) {
	late := map[string]string{"permits taken since count for their own time": "" +
		"take 4 as a; sleep 500ms; take 5; back 4 a; sleep 100ms; refuse 6; take 5; sleep 450ms; refuse 1; " +
		"sleep 400ms; refuse 1; sleep 145ms; take 4; refuse 2; back 4 a; refuse 2",
	}
	formtest.Tell(t, log(10, time.Second), late)
	formtest.Tell(t, counterOf(0)(10, time.Second), late)
	many := formtest.Each(600, "take 1 as #; sleep 1ms; ") + "take 2 as 600"
	for _, tt := range []struct{ which, left int }{
		{0, 399}, {0, 399}, {2, 400}, {300, 401}, {400, 402}, {599, 403}, {600, 404},
	} {
		many += fmt.Sprintf("; back 1 %d; refuse 1000 left %d; "+
			"redis PTTL KEY = 3540000..3600001", tt.which, tt.left)
	}
	formtest.Tell(t, log(1000, time.Hour), map[string]string{
		"among many records": many,
		"a settlement frees nothing but its own grant": "" +
			"reserve 400 as a; sleep 20m; take 600; settle a 0; sleep 40m; refuse 401; take 400",
		"the key of a single record expires": "take 4 as a; back 1 a; redis PTTL KEY = 1..3600001",
	})
}

// A limiter with other numbers keeps the permits that were taken before. Limiters with other numbers share a
// name, as during a deploy: permits of the longer interval stay taken, whichever limiter calls meanwhile.
func TestOtherNumbersKeepWhatWasTaken(t *testing.T) {
	each(t, func(t *testing.T, of maker) {
		for _, to := range []struct {
			rate     int64
			interval time.Duration
		}{
			{20, time.Minute}, {20, time.Hour}, {5000, time.Minute}, {20, 17 * time.Second},
			{20, time.Second},
		} {
			both := map[string]formtest.Algorithm{"old": of(10, time.Minute), "now": of(to.rate, to.interval)}
			reset := 2 * max(to.interval, time.Minute)
			formtest.Play{Algorithms: both}.Tell(t, map[string]string{fmt.Sprint(to): fmt.Sprintf(""+
				"old: take 10; now: refuse %[1]d left %[2]d reset 0s..%[3]v; sleep retry-1us; "+
				"now: refuse %[1]d; "+
				"sleep 1us; now: take %[1]d; sleep %[3]v; "+
				"now: take %[4]d", to.rate-9, to.rate-10, reset, to.rate)})
		}
		formtest.Play{Algorithms: map[string]formtest.Algorithm{
			"ten": of(10, time.Minute), "four": of(4, time.Minute), "hour": of(40, time.Hour),
			"second": of(40, time.Second),
		}}.Tell(t, map[string]string{
			"fewer permits than are out": "" +
				"ten: take 10; four: refuse 4 left 0; four: release 3; four: refuse 1",
			"the longer interval holds": "" +
				strings.Repeat("50x hour: try 1; second: try 1; sleep 30s; ", 15) + "hour: granted 1..40; " +
				"sleep 2h; second: take 40; sleep 2s; second: take 40",
		})
	})
	// Counters with other parts: permits come back however often one kind of parts is converted to the other,
	// and an hour later a change costs less than a part of both.
	for parts, left := range map[int]string{1: "0..9", 3: "0..2", 7: "0..2", 100: "0..2"} {
		formtest.Play{Algorithms: map[string]formtest.Algorithm{
			"one": counterOf(0)(10, time.Second), "other": counterOf(parts)(10, time.Second),
		}}.Tell(t, map[string]string{fmt.Sprint("10 and parts ", parts): "" +
			strings.Repeat("one: try 1; sleep 10ms; other: try 1; sleep 10ms; ", 200) +
			"one: granted 0..50; other: granted 0..50; sleep 1h; " +
			strings.Repeat("one: take 1; sleep 100ms; ", 10) +
			"other: refuse 10 left " + left + "; sleep 2s; other: take 10",
		})
	}
}

// After the clock is set back, permits come back within an interval, and not before their time. Unreadable
// data count as a rate that was just taken, so that the bound holds, and go when that rate has come back. A
// clock that is set back to the very time of a record leaves one record.
func TestClocksSetBackAndForeignData(t *testing.T) {
	each(t, func(t *testing.T, of maker) {
		spoil := "SET KEY x"
		if strings.HasSuffix(t.Name(), "/Log") {
			spoil = "ZADD KEY 1e300 x"
		}
		formtest.Tell(t, of(10, time.Minute), map[string]string{
			"set back":   "take 10; clock -10m; refuse 10 left 0 reset 1us..2m; sleep reset; take 10",
			"unreadable": "take 1; redis " + spoil + "; refuse 1; sleep reset; take 10",
		})
	})
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() // when a bubble begins
	formtest.Tell(t, counterOf(0)(10, time.Minute), map[string]string{
		"more permits than any part has": fmt.Sprintf("take 1; redis SET KEY %d_%d_%s; "+
			"refuse 1 left 0; sleep reset; take 10", 6_000_000, now/6_000_000, strings.Repeat("9", 20)),
	})
	formtest.Tell(t, log(12, time.Minute), map[string]string{
		"the time of a record": "take 9; clock 1s; take 3; clock -1s; 2x refuse 1 left 0 retry 1m",
	})
	formtest.Tell(t, log(10, time.Minute), map[string]string{
		"sums start over before floats would lose permits": fmt.Sprintf(""+
			"redis ZADD {name}:slidinglog %d 281474976710653:3; sleep 1s; take 2 left 5; sleep 1s; "+
			"take 2 left 3; "+
			"sleep 1s; take 2 left 1; refuse 5 retry 58s; release 3; take 4; refuse 1", now),
	})
}

// A Log of more than 1,000 grants has at most 1,001 records: then permits come back up to a thousandth of
// the interval late.
func TestALogHasABoundedNumberOfRecords(t *testing.T) {
	formtest.Tell(t, log(1250, time.Second), map[string]string{"1,250 grants": "" +
		strings.Repeat("take 1; sleep 600us; ", 1250) + "redis ZCARD KEY = 1..1001; " +
		"refuse 1250 reset 999400us; refuse 1 retry 250ms..251ms",
	})
}
