package history_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// slots is how many steps of the clock an interval takes.
const slots = 4

// owners is how many Clients a history has at most, and one more for records of format fI.
const (
	owners = others + 1
	others = 3 // their owner: they do not tell Clients apart
)

// held is all that a limiter knows that is asked one request after another.
type held struct {
	rate  int64
	taken [slots][owners]int64 // by the steps of the clock since then, and whose records they are in
}

func (s held) free() int64 {
	free := s.rate
	for _, step := range s.taken {
		for _, n := range step {
			free -= n
		}
	}
	return free
}

// shown returns what a limiter says is free.
func (s held) shown() int64 { return min(max(0, s.free()), s.rate) }

func (s held) takes(a asked) held {
	s.taken[0][a.owner] += a.n
	return s
}

// gives returns what is left after a release. It takes the newest of its owner, and then the
// oldest; of those of one step, whose they are is left to chance.
func (s held) gives(a asked) (after []held) {
	rest, permits := s, a.n
	for i := range rest.taken {
		if a.owner != others {
			rest.taken[i][a.owner] -= out(&permits, rest.taken[i][a.owner])
		}
	}
	for _, order := range [][]int{{0, 1, 2, others}, {0, 2, 1, others}, {1, 0, 2, others}, {1, 2, 0, others},
		{2, 0, 1, others}, {2, 1, 0, others}} {
		next, permits := rest, permits
		for i := slots - 1; i >= 0; i-- {
			for _, owner := range order {
				next.taken[i][owner] -= out(&permits, next.taken[i][owner])
			}
		}
		if !slices.Contains(after, next) {
			after = append(after, next)
		}
	}
	return after
}

// out returns how many of n permits are among those wanted, which become fewer.
func out(wanted *int64, n int64) int64 {
	n = min(n, *wanted)
	*wanted -= n
	return n
}

type kind string

const (
	acquires  kind = "TryAcquire"
	allows    kind = "Allow"
	releases  kind = "Release"
	sets      kind = "SetRate"
	keeps     kind = "SetRate, keep state"
	available kind = "AvailablePermits"
	steps     kind = "the clock goes on"
)

// An asked is one call.
type asked struct {
	kind    kind
	client  int
	owner   int   // whose records its permits are in
	n       int64 // permits, or the rate
	timeout time.Duration
	ahead   int64 // the most permits that a waiter ahead of it in line may want
	yields  bool  // its Client may leave permits to another one, whose callers have waited as well
}

// A told is what a call has returned.
type told struct {
	ok      bool
	left    int64 // -1: did not say
	limit   int64
	exceeds bool // ErrPermitsExceedRate
}

// model is the limiter that is asked one request after another.
var model = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{held{}} },
	Step: func(state, input, output any) (after []any) {
		for _, next := range state.(held).after(input.(asked), output.(told)) {
			after = append(after, next)
		}
		return after
	},
	Hash: func(state any) uint64 {
		s := state.(held)
		hash := uint64(s.rate)
		for _, step := range s.taken {
			for _, n := range step {
				hash = hash*0x9E3779B97F4A7C15 + uint64(n)
			}
		}
		return hash * 0xFF51AFD7ED558CCD
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}).ToModel()

// after returns what a call may leave behind. It returns nothing if the call cannot have returned that.
func (s held) after(a asked, t told) []held {
	switch a.kind {
	case acquires, allows:
		return s.acquired(a, t)
	case releases:
		return s.gives(a)
	case sets:
		return []held{{rate: a.n}}
	case keeps:
		return []held{{rate: a.n, taken: s.taken}}
	case steps:
		copy(s.taken[1:], s.taken[:slots-1])
		s.taken[0] = [owners]int64{}
	case available:
		if t.left != s.shown() {
			return nil
		}
	}
	return []held{s}
}

func (s held) acquired(a asked, t told) []held {
	may, next := false, s
	switch {
	case t.exceeds:
		may = a.n > s.rate
	case t.ok:
		may, next = a.n <= s.free(), s.takes(a)
	default: // refused for want of permits, behind a waiter, or for the portion of another Client
		may = a.n <= s.rate && a.n > s.free() || a.ahead > s.free() || a.yields
	}
	if !may || t.left >= 0 && (t.left != next.shown() || t.limit != s.rate) {
		return nil
	}
	return []held{next}
}

// A history that no limiter can have is found out. Each case breaks one rule.
func TestWrongHistoriesAreRejected(t *testing.T) {
	yes, no, exceeds := told{ok: true, left: -1}, told{left: -1}, told{left: -1, exceeds: true}
	take := func(n int64) asked { return asked{kind: acquires, n: n} }
	waits := func(n int64) asked { return asked{kind: acquires, n: n, timeout: 1} }
	give, set, keep := asked{kind: releases, n: 2}, asked{kind: sets, n: 3}, asked{kind: keeps, n: 3}
	step := asked{kind: steps}
	left := func(n int64) told { return told{ok: true, left: n, limit: 3} }
	type call struct {
		asked asked
		told  told
	}
	for name, c := range map[string]struct {
		before       []call
		right, wrong call
	}{
		"one grant too many":   {[]call{{take(2), yes}}, call{take(2), no}, call{take(2), yes}},
		"refused without need": {[]call{{take(2), yes}}, call{take(1), yes}, call{take(1), no}},
		"waited without need":  {[]call{{take(2), yes}}, call{waits(2), no}, call{waits(1), no}},
		"above the rate":       {nil, call{take(4), exceeds}, call{take(4), no}},
		"not above the rate":   {nil, call{take(3), yes}, call{take(3), exceeds}},
		"given back":           {[]call{{take(3), yes}, {give, yes}}, call{take(2), yes}, call{take(3), yes}},
		"more than was taken": {[]call{{take(1), yes}, {give, yes}}, call{take(3), yes},
			call{take(1), no}},
		"a new rate": {[]call{{take(3), yes}, {set, yes}}, call{take(3), yes}, call{take(1), no}},
		"a new rate that keeps": {[]call{{take(3), yes}, {keep, yes}}, call{take(1), no},
			call{take(1), yes}},
		"the numbers": {[]call{{take(1), yes}}, call{asked{kind: allows, n: 1}, left(1)},
			call{asked{kind: allows, n: 1}, left(2)}},
		"what is available": {[]call{{take(1), yes}}, call{asked{kind: available}, left(2)},
			call{asked{kind: available}, left(1)}},
		"not back after three steps": {[]call{{take(1), yes}, {step, yes}, {step, yes}, {step, yes}},
			call{take(3), no}, call{take(3), yes}},
	} {
		for want, last := range map[porcupine.CheckResult]call{porcupine.Ok: c.right,
			porcupine.Illegal: c.wrong} {
			h := &history{T: t}
			for _, c := range append(append([]call{{set, yes}}, c.before...), last) {
				h.does(c.asked, func() told { return c.told })
			}
			if got := porcupine.CheckOperationsTimeout(model, h.ops, 10*time.Second); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	}
}
