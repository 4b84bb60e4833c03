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

// owners is how many Clients a history has at most, and one more for shared records.
const (
	owners = nobody + 1
	nobody = 3 // whose the records of a resolution are
)

// held is all that a limiter knows that is asked one request after another.
type held struct {
	rate  int64
	taken [slots][owners]int64 // by the steps of the clock since then, and whose records they are in
	lost  int64                // of those taken now, what no caller knows of: it may come back at any time
	open  uint64               // a bit for each reservation that is not settled
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
// oldest; of those of one step, whose they are is left to chance. It may be permits that no
// caller knows of. A withdrawal of those does not know that, and gives back as many as they
// were.
func (s held) gives(a asked) (after []held) {
	rest, permits := s, a.n
	for i := range rest.taken {
		if a.owner != nobody {
			rest.taken[i][a.owner] -= out(&permits, rest.taken[i][a.owner])
		}
	}
	for _, order := range [][]int{{0, 1, 2, nobody}, {0, 2, 1, nobody}, {1, 0, 2, nobody}, {1, 2, 0, nobody},
		{2, 0, 1, nobody}, {2, 1, 0, nobody}} {
		next, permits := rest, permits
		for i := slots - 1; i >= 0; i-- {
			for _, owner := range order {
				next.taken[i][owner] -= out(&permits, next.taken[i][owner])
			}
		}
		now := s.taken[0][a.owner] - next.taken[0][a.owner]
		for next.lost = max(0, s.lost-now); next.lost <= s.lost; next.lost++ {
			if !slices.Contains(after, next) {
				after = append(after, next)
			}
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
	reserves  kind = "TryReserve"
	settles   kind = "Settle"
	charges   kind = "Charge"
)

// An asked is one call.
type asked struct {
	kind    kind
	client  int
	owner   int   // whose records its permits are in
	n       int64 // permits, or the rate
	timeout time.Duration
	ahead   int64  // the most permits that a waiter ahead of it in line may want
	yields  bool   // its Client may leave permits to another one, whose callers have waited as well
	id      uint64 // the bit of its reservation
	used    int64  // what is settled of n
	resent  bool   // its reply may be that to a copy, which is judged by a later rate
}

// A told is what a call has returned.
type told struct {
	ok      bool
	left    int64 // -1: did not say
	debt    int64
	limit   int64
	exceeds bool // ErrPermitsExceedRate
	unknown bool // another error: whether it was done is unknown
	late    bool // refused before its timeout; asked for again at its end, and has left
}

// model is the limiter that is asked one request after another.
var model = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{held{}} },
	Step: func(state, input, output any) (after []any) {
		s, was := state.(held), state.(held)
		for s.lost = was.lost; s.lost >= 0; s.lost-- {
			for _, next := range s.after(input.(asked), output.(told)) {
				after = append(after, next)
			}
			s.taken[0][0] = max(0, s.taken[0][0]-1) // where any are lost, all are in records of the first
		}
		return after
	},
	Hash: func(state any) uint64 {
		s := state.(held)
		hash := uint64(s.rate)<<8 ^ uint64(s.lost) ^ s.open<<16
		for _, step := range s.taken {
			for _, n := range step {
				hash = hash*0x9E3779B97F4A7C15 + uint64(n)
			}
		}
		return hash * 0xFF51AFD7ED558CCD
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}).ToModel()

// after returns what a call may leave behind. It returns nothing if the call cannot
// have returned that.
func (s held) after(a asked, t told) []held {
	var done []held
	switch a.kind {
	case acquires, allows, reserves:
		done = s.reserved(a, t)
	case settles:
		done = []held{s.settled(a)}
	case charges:
		done = s.charged(a, t)
	case releases:
		done = s.gives(a)
	case sets:
		done = []held{{rate: a.n}}
	case keeps:
		done = []held{{rate: a.n, taken: s.taken, lost: s.lost, open: s.open}}
	case available:
		if t.left == s.shown() {
			done = []held{s}
		}
	case steps:
		copy(s.taken[1:], s.taken[:slots-1])
		s.taken[0] = [owners]int64{}
		done = []held{s}
	}
	if t.unknown {
		done = append(done, s)
	}
	return done
}

// reserved returns what an acquire may leave behind, with its reservation if it makes one. A reservation that
// no caller knows of is never settled.
func (s held) reserved(a asked, t told) []held {
	done := s.acquired(a, t)
	for i := range done {
		if t.ok {
			done[i].open |= a.id
		}
	}
	return done
}

// settled returns what a settlement leaves behind: the first one counts.
func (s held) settled(a asked) held {
	if s.open&a.id != 0 {
		s.open &^= a.id
		s.taken[0][0] += a.used - a.n
	}
	return s
}

func (s held) charged(a asked, t told) []held {
	next := s.takes(a)
	if t.unknown || t.left < 0 || t.left == next.shown() && t.debt == max(0, -next.free()) {
		return []held{next}
	}
	return nil
}

func (s held) acquired(a asked, t told) []held {
	fits, next := a.n <= s.free(), s
	switch {
	case t.unknown:
		if next = s.takes(a); !fits {
			return nil
		}
		next.lost += a.n
		return []held{next}
	case t.exceeds:
		fits = a.n > s.rate
	case t.ok:
		next = s.takes(a)
	default: // refused for itself, or behind a waiter that was refused
		if fits && t.late {
			next = s.takes(a)
			next.lost += a.n
			break
		}
		fits = s.refuses(a)
	}
	if !fits || t.left >= 0 && (t.left != next.shown() || t.limit != s.rate) {
		return nil
	}
	return []held{next}
}

// refuses reports whether a request may be refused for a reason other than its timeout: for want of permits,
// behind a waiter, for the portion of another Client, or because it was above the rate and its copy was not.
func (s held) refuses(a asked) bool {
	above := a.n > s.rate
	return !above && a.n > s.free() || a.ahead > s.free() || a.yields || above && a.resent
}

// A history that no limiter can have is found out. Each case breaks one rule.
func TestWrongHistoriesAreRejected(t *testing.T) {
	yes, no, exceeds, unknown := told{ok: true, left: -1}, told{left: -1}, told{left: -1, exceeds: true},
		told{left: -1, unknown: true}
	take := func(n int64) asked { return asked{kind: acquires, n: n} }
	waits := func(n int64) asked { return asked{kind: acquires, n: n, timeout: 1} }
	reserve := func(n int64) asked { return asked{kind: reserves, n: n, id: 1} }
	settle := func(n, used int64) asked { return asked{kind: settles, n: n, used: used, id: 1} }
	charge := func(n int64) asked { return asked{kind: charges, n: n} }
	give, set, keep := asked{kind: releases, n: 2}, asked{kind: sets, n: 3}, asked{kind: keeps, n: 3}
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
		"above the rate, which has grown before a copy": {nil,
			call{asked{kind: acquires, n: 4, resent: true}, no},
			call{asked{kind: acquires, n: 3, resent: true}, no}},
		"not above the rate": {nil, call{take(3), yes}, call{take(3), exceeds}},
		"given back": {[]call{{take(3), yes}, {give, yes}}, call{take(2), yes},
			call{take(3), yes}},
		"more than was taken": {[]call{{take(1), yes}, {give, yes}}, call{take(3), yes},
			call{take(1), no}},
		"a new rate": {[]call{{take(3), yes}, {set, yes}}, call{take(3), yes},
			call{take(1), no}},
		"a new rate that keeps": {[]call{{take(3), yes}, {keep, yes}}, call{take(1), no},
			call{take(1), yes}},
		"the numbers": {[]call{{take(1), yes}}, call{asked{kind: allows, n: 1}, left(1)},
			call{asked{kind: allows, n: 1}, left(2)}},
		"what is available": {[]call{{take(1), yes}}, call{asked{kind: available}, left(2)},
			call{asked{kind: available}, left(1)}},
		"refused once, and late":      {nil, call{waits(2), told{left: -1, late: true}}, call{waits(2), no}},
		"not known, and not too much": {[]call{{take(2), unknown}}, call{take(3), yes}, call{take(4), yes}},
		"given back or not": {[]call{{take(3), yes}, {give, unknown}}, call{take(2), yes},
			call{take(3), yes}},
		"given back twice": {[]call{{take(3), yes}, {give, unknown}, {take(2), yes}},
			call{take(1), no}, call{take(2), yes}},
		"a rate that was set or not": {[]call{{take(3), yes}, {set, unknown}, {take(3), yes}},
			call{take(1), no}, call{take(3), yes}},
		"settled": {[]call{{reserve(3), yes}, {settle(3, 1), yes}}, call{take(2), yes}, call{take(3), yes}},
		"settled twice": {[]call{{reserve(3), yes}, {settle(3, 1), yes}, {settle(3, 0), yes}},
			call{take(3), no}, call{take(3), yes}},
		"settled to more": {[]call{{reserve(2), yes}, {settle(2, 3), yes}}, call{take(1), no},
			call{take(1), yes}},
		"charged": {[]call{{take(2), yes}}, call{charge(3), told{ok: true, debt: 2}},
			call{charge(3), told{ok: true, debt: 3}}},
		"in debt": {[]call{{charge(4), told{ok: true, debt: 1}}}, call{take(1), no}, call{take(1), yes}},
		"not back after three steps": {[]call{{take(1), yes}, {asked{kind: steps}, yes},
			{asked{kind: steps}, yes}, {asked{kind: steps}, yes}}, call{take(3), no}, call{take(3), yes}},
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
