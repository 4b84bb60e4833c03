package grants_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/grants"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

var epoch = time.UnixMilli(1_700_000_000_000)

// at returns the moment ms after the epoch.
func at(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }

// got is a call that was granted permits, or gave them back.
func got(from, to int, permits int64) grants.Entry {
	return grants.Entry{Who: "a", Start: at(from), End: at(to), Permits: permits}
}

// dated is got by a caller that dates the grant before it sends the request.
func dated(from, to int, permits int64) grants.Entry {
	e := got(from, to, permits)
	e.Dated = true
	return e
}

func logOf(entries []grants.Entry, losses ...grants.Loss) *grants.Log {
	l := &grants.Log{}
	for _, e := range entries {
		l.Add(e)
	}
	for _, loss := range losses {
		l.Lose(loss)
	}
	return l
}

var ten = grants.Limit{Rate: 10, Interval: 100 * time.Millisecond}

// Histories that keep the limit, and others that do not: both lie at the border. The
// second one of each pair is wrong, and is found.
func TestWorst(t *testing.T) {
	type entries = []grants.Entry
	for name, c := range map[string]struct {
		right, wrong entries
		losses       []grants.Loss
	}{
		"one grant": {right: entries{got(0, 1, 10)}, wrong: entries{got(0, 1, 11)}},
		"just an interval later": {
			right: entries{got(0, 0, 10), got(100, 100, 10)},
			wrong: entries{got(0, 0, 10), got(99, 99, 1)}},
		"before, or a moment later": {
			right: entries{got(0, 1, 10), got(50, 101, 1)},
			wrong: entries{got(0, 1, 10), got(50, 97, 1)}},
		"a call that waits long says little": {
			right: entries{got(0, 50, 10), got(10, 140, 10)},
			wrong: entries{got(0, 50, 10), got(10, 90, 1)}},
		"of two intervals, one is over the limit": {
			right: entries{got(0, 70, 10), got(80, 150, 10)},
			wrong: entries{got(0, 70, 10), got(80, 150, 11)}},
		"of eight intervals, one is": {
			right: entries{got(0, 150, 10), got(100, 750, 70)},
			wrong: entries{got(0, 150, 10), got(100, 750, 71)}},
		"a caller that dates grants by its own clock is believed": {
			right: entries{got(0, 10, 10), dated(20, 171, 2), got(170, 171, 10)},
			wrong: entries{got(0, 10, 10), got(20, 171, 2), got(170, 171, 10)}},
		"within one interval dates do not matter": {
			right: entries{got(0, 10, 8), dated(20, 90, 2)},
			wrong: entries{got(0, 10, 10), dated(20, 90, 1)}},
		"what was given back counts back": {
			right: entries{got(0, 1, 10), got(2, 3, -4), got(4, 5, 4)},
			wrong: entries{got(0, 1, 10), got(2, 3, -4), got(4, 5, 5)}},
		"a release comes before what it makes room for": {
			right: entries{got(0, 1, 10), got(2, 90, -4), got(4, 5, 4)},
			wrong: entries{got(0, 1, 10), got(4, 5, 4), got(6, 90, -4)}},
		"what was given back before is no credit": {
			right: entries{got(0, 1, 10), got(2, 3, -10), got(4, 5, 10)},
			wrong: entries{got(0, 1, 10), got(2, 3, -10), got(4, 5, 11)}},
		"what was lost may be granted again": {
			right:  entries{got(0, 1, 10), got(30, 31, 10)},
			wrong:  entries{got(0, 1, 10), got(30, 31, 11)},
			losses: []grants.Loss{{To: at(20), Since: at(20)}}},
		"the limit held until it was lost": {
			right:  entries{got(0, 1, 10), got(30, 31, 10)},
			wrong:  entries{got(0, 1, 10), got(5, 6, 1), got(30, 31, 9)},
			losses: []grants.Loss{{To: at(20), Since: at(20)}}},
		"only what came late is lost": {
			right:  entries{got(0, 1, 6), got(15, 16, 4), got(30, 31, 4)},
			wrong:  entries{got(0, 1, 6), got(15, 16, 4), got(30, 31, 5)},
			losses: []grants.Loss{{From: at(10), To: at(20), Since: at(20)}}},
		"a grant that was known only later is also lost": {
			right:  entries{got(0, 12, 10), got(30, 31, 10)},
			wrong:  entries{got(0, 9, 10), got(30, 31, 10)},
			losses: []grants.Loss{{From: at(10), To: at(20), Since: at(20)}}},
		"a time of which nothing is known": {
			right:  entries{got(10, 11, 10), got(15, 16, 10), got(30, 31, 10)},
			wrong:  entries{got(10, 11, 10), got(15, 16, 10), got(30, 31, 11)},
			losses: []grants.Loss{{From: at(5), To: at(20), Since: at(5)}}},
	} {
		for history, entries := range map[string]entries{"right": c.right, "wrong": c.wrong} {
			l := logOf(entries, c.losses...)
			worst := ten.Worst(l, 0)
			if over := worst.Permits() > ten.Rate; over != (history == "wrong") {
				t.Errorf("%s, the %s history: %v", name, history, worst)
			}
		}
	}
}

// Slack makes the interval shorter, and only that.
func TestSlack(t *testing.T) {
	l := logOf([]grants.Entry{got(0, 0, 10), got(99, 99, 10)})
	if w := ten.Worst(l, 0); w.Permits() != 20 {
		t.Errorf("without slack: %v", w)
	}
	if w := ten.Worst(l, time.Millisecond); w.Permits() != 10 {
		t.Errorf("with 1 ms: %v", w)
	}
}

// Nothing was granted: nothing was over the limit.
func TestNothing(t *testing.T) {
	if w := ten.Worst(&grants.Log{}, 0); w.Sum != 0 || ten.Check(&grants.Log{}) != nil {
		t.Error(w)
	}
}

// A limiter that keeps the limit is never accused, whenever its calls begin and end. Its log is right by
// construction. One permit more in its fullest window is found if the calls took no time.
func TestALimiterIsNotAccused(t *testing.T) {
	for seed := range uint64(redistest.Rounds(t, 200)) {
		random := rand.New(rand.NewPCG(seed, 1))
		var exact, vague []grants.Entry
		var taken grants.Grants
		for now := 0; now < 2000; now += 1 + random.IntN(15) {
			n := 1 + random.Int64N(4)
			if taken.Wait(int64(now), ten.Rate, 100, n) > 0 {
				continue
			}
			taken = append(taken, grants.Grant{At: int64(now), Permits: n})
			exact = append(exact, got(now, now, n))
			vague = append(vague, got(now-random.IntN(120), now+random.IntN(120), n))
		}
		for _, entries := range [][]grants.Entry{exact, vague} {
			if w := ten.Worst(logOf(entries), 0); w.Permits() > ten.Rate {
				t.Fatalf("seed %d: %v", seed, w)
			}
		}
		worst := ten.Worst(logOf(exact), 0)
		more := append(slices.Clone(exact), got(int(worst.From.Sub(epoch).Milliseconds()),
			int(worst.From.Sub(epoch).Milliseconds()), ten.Rate+1-worst.Sum))
		if w := ten.Worst(logOf(more), 0); worst.Intervals == 1 && w.Permits() <= ten.Rate {
			t.Fatalf("seed %d: %v was not found", seed, w)
		}
	}
}

// The error lists the calls around the window, and what was lost.
func TestTheErrorListsTheCallsOfTheWindow(t *testing.T) {
	l := logOf([]grants.Entry{got(0, 1, 10), {Who: "Java 2", Start: at(3), End: at(9), Permits: 3},
		got(105, 160, 7), got(900, 901, 5)},
		grants.Loss{From: at(20), To: at(30), Since: at(30), Why: "the server was killed"})
	err := fmt.Sprint(ten.Check(l))
	for _, want := range []string{"13 permits in 9ms, the limit is 10 in 100ms:", "Java 2: +3", "a: +7",
		"the server was killed"} {
		if !strings.Contains(err, want) {
			t.Errorf("no %q in %s", want, err)
		}
	}
	if strings.Contains(err, "a: +5") {
		t.Errorf("a call that is far away is in %s", err)
	}
}
