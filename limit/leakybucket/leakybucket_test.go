package leakybucket_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/leakybucket"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

func TestMeterBounds(t *testing.T) {
	formtest.Refuses(t, map[string]leakybucket.Meter{
		"Capacity is 0":             {Rate: 1, Interval: time.Second},
		"Capacity is 1099511627777": {Capacity: 1<<40 + 1, Rate: 1, Interval: time.Second},
		"Rate is -1":                {Capacity: 1, Rate: -1, Interval: time.Second},
		"Interval is 0s":            {Capacity: 1, Rate: 1},
		"fills in 1e+09 s":          {Capacity: 1e9, Rate: 1, Interval: time.Second},
	})
}

func TestQueueBounds(t *testing.T) {
	formtest.Refuses(t, map[string]leakybucket.Queue{
		"Rate is 0":          {Capacity: 1, Interval: time.Second},
		"Interval is 0s":     {Capacity: 1, Rate: 1},
		"Capacity is 0":      {Rate: 1, Interval: time.Second},
		"fills in 3.6e+12 s": {Rate: 1, Interval: time.Hour, Capacity: 1e9},
		"Capacity is -1":     {Rate: 1, Interval: time.Hour, Capacity: -1},
		"Rate is 1099511627": {Rate: 1<<40 + 1, Interval: time.Hour, Capacity: 1},
	})
}

// waits starts a caller that waits for its turn: "wait as a; seen a 100ms".
func waits(s *formtest.Stage, _ []string) error {
	l := s.Limiter.(leakybucket.Line)
	if s.As == "" {
		return l.Wait(s.Ctx())
	}
	s.Start(l.Wait)
	return nil
}

// queue returns a Queue of ten in a second, in which some may wait.
func queue(capacity int64) formtest.Play {
	return formtest.Play{
		Algorithms: map[string]formtest.Algorithm{
			"": formtest.Of(leakybucket.Queue{Rate: 10, Interval: time.Second, Capacity: capacity}),
		},
		Verbs:  map[string]formtest.Verb{"wait": waits},
		Errors: map[string]error{"full": leakybucket.ErrFull},
	}
}

func TestLines(t *testing.T) {
	const four = "wait as 0; wait as 1; wait as 2; wait as 3; "
	const middle = four + "sleep 50ms; leave 1; wait as 4; seen 0 0s, 1 50ms left, 2 "
	line := queue(5)
	line.Tell(t, map[string]string{
		"turns have a constant pace, in order, and while five wait the line is full": four +
			"wait as 4; wait as 5; wait as 6; wait as 7; " +
			"seen 0 0s, 6 0s full, 7 0s full, 1 100ms, 2 200ms, 3 300ms, 4 400ms, 5 500ms; sleep 50ms; " +
			"wait as 8; seen 8 600ms; sleep 1s; wait as 9; seen 9 1.6s",
		"callers wait for all the turns that were taken at once before them": "" +
			"take 4; wait as 0; wait as 1; wait as 2; refuse 1 left 0 retry 600ms; " +
			"seen 2 0s full, 0 400ms, 1 500ms",
		"a caller that leaves the end gives its turn back": four +
			"sleep 50ms; leave 3; leave 2; refuse 1 retry 150ms; wait as 4; " +
			"seen 0 0s, 3 50ms left, 2 50ms left, 1 100ms, 4 200ms",
		"released permits bring no two turns together": "" +
			"wait as 0; wait as 1; wait as 2; release 3; wait as 3; seen 0 0s, 1 100ms, 2 200ms, 3 300ms",
		"an ended context takes no turn": "wait ended; take 10",
	})
	line.Forms = formtest.InMemory
	line.Tell(t, map[string]string{
		"in memory, callers move up behind one that leaves the middle": middle + "100ms, 3 200ms, 4 300ms",
	})
	line.Forms = formtest.OnRedis
	line.Tell(t, map[string]string{
		"on Redis, the turn of a caller that leaves the middle passes": middle + "200ms, 3 300ms, 4 400ms",
	})
	line = queue(1)
	line.Forms = formtest.InMemory
	line.Tell(t, map[string]string{
		"a clock set to and fro takes each turn once": "" +
			strings.Repeat("try 1; clock 100ms; try 1; clock -100ms; ", 3) + "granted 2",
		"set far back, it owes two intervals": "" +
			"take 1; clock -1h; refuse 1 retry 2s; sleep 40ms; refuse 1 retry 1960ms; sleep 2s; take 10",
	})
	q := leakybucket.Queue{Rate: 1, Interval: time.Second, Capacity: 1}
	lines := redistest.Must(q.InMemory())(t)
	formtest.Fails(t, limit.ErrInvalidArgument, lines.For("").Wait(t.Context()))
}

// During a deploy, processes with other numbers share a limit. Permits and turns stay taken, whatever the
// processes with the smaller numbers call.
func TestOtherNumbersShareALimit(t *testing.T) {
	formtest.Play{Algorithms: map[string]formtest.Algorithm{
		"large": formtest.Of(leakybucket.Meter{1000, 1000, time.Hour}),
		"small": formtest.Of(leakybucket.Meter{100, 1000, time.Hour}),
	}}.Tell(t, map[string]string{"meters": "" +
		"20x large: take 50; 3x small: refuse 1 retry 54m3.6s reset 1h; large: refuse 50; " +
		"small: release 100; large: take 1 left 99",
	})
	play, turns := queue(50), ""
	play.Algorithms["short"] = queue(5).Algorithms[""]
	for i := range 20 {
		turns += fmt.Sprintf(", %d %v", i+1, time.Duration(i+1)*100*time.Millisecond)
	}
	play.Tell(t, map[string]string{"queues": formtest.Each(21, "wait as #; ") +
		"2x sleep 150ms; short: wait full; short: refuse 1 retry 1.8s; seen 0 0s" + turns,
	})
}

// Numbers under the key count as far as they can be true. The water, or the owed time, that a clock set
// back would add to them is bounded. A refusal leaves them alone.
func TestImpossibleNumbersAreBounded(t *testing.T) {
	digits := strings.Repeat("9", 100)
	for key, texts := range map[string]map[string]string{
		"leakybucket": {
			"1000_NOW": "refuse 1 retry 99100ms", "10_HOUR": "refuse 1 retry 100ms",
			"1000_HOUR": "refuse 1 retry 99100ms", "9100000000000000000_NOW": "refuse 1 retry 100ms",
			"9007199254740992_NOW": "refuse 1 retry 100ms", "1000000009_NOW": "refuse 1 retry 100000000s",
			"5_9100000000000000000": "refuse 1 retry 100ms",
			"1000_" + digits:        "take 1", "1000_NOW" + digits: "take 1",
			"1000" + digits + "_NOW": "take 1",
		},
		"leakyqueue": {
			"5000000_NOW_0": "refuse 1 retry 5s", "1000000_HOUR_0": "refuse 1 retry 2s",
			"5000000_HOUR_0": "refuse 1 retry 5s", "9100000000000000000_NOW_0": "refuse 1 retry 2s",
			"5" + digits + "_NOW_0": "take 1", "5000000_NOW_" + digits: "take 1",
		},
	} {
		promises := map[string]string{}
		for text, call := range texts {
			set := fmt.Sprintf("redis SET {name}:%s %s KEEPTTL; %s; redis PTTL KEY = 1..1000000000000",
				key, text, call)
			promises[text] = set + "; " + set
		}
		play := queue(5)
		if key == "leakybucket" {
			play.Algorithms[""] = formtest.Of(leakybucket.Meter{10, 10, time.Second})
		}
		play.Tell(t, promises)
	}
}
