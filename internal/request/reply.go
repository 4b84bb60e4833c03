package request

import (
	"fmt"
	"slices"
	"time"

	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A Result is the outcome of a call for one caller.
type Result struct {
	OK    bool
	Wait  int64 // us until the permits are there, if refused; 0 unknown, -1 never
	Again bool  // Wait is when to look again: the permits may come only with the last ones
	Limit int64
	Every int64 // ms of the interval
	Left  int64 // remaining permits, may be negative
	Reset int64 // ms until all are back

	Records  string // those of a reservation, of a member of a Group
	Degraded bool   // Redis has not decided
	Notes
}

// Notes are for an observer alone.
type Notes struct {
	Drift    int64         // permits by which the value was wrong; this call has corrected it
	Replaced bool          // the given rate has replaced another rate, interval or keep alive
	Batch    int           // callers that the request judged
	Queued   time.Duration // the wait for permits
}

// RetryAfter returns the time until refused permits are there, or until the next look.
func (v Result) RetryAfter() time.Duration {
	if v.Again {
		return v.ResetAfter()
	}
	return wire.Microseconds(max(0, v.Wait))
}

// ResetAfter returns the time until all permits are back.
func (v Result) ResetAfter() time.Duration { return wire.Milliseconds(v.Reset) }

// Granted reports whether all members of a Group have granted.
func Granted(results []Result) bool {
	return len(results) > 0 && !slices.ContainsFunc(results, func(v Result) bool { return !v.OK })
}

// A Reply has the numbers of one limiter, of acquire.lua, peek.lua or all.lua.
type Reply struct {
	Replaced        bool  // the given rate has replaced another
	Beside          bool  // some permits are left to Java
	Java            int64 // permits that Java holds, -1 if they were not counted
	Rate            int64 // 0 if the script did not say, as below
	Left            int64 // remaining permits, may be negative
	reset           int64 // ms until all permits are back, without this grant
	resetAfterGrant int64 // the same with this grant
	Interval        int64 // ms of the interval
	Drift           int64 // permits by which the value was wrong; the call has corrected it

	// judged has two numbers for each run: how many of its callers are granted,
	// and the us that the next one waits. It is nil if all are granted.
	judged []int64
}

// The positions of the numbers in a reply that is a table (scripts/acquire.lua). settle.lua replies those
// before replyJudged.
const (
	replyFlags = iota
	replyRate
	replyLeft
	replyReset
	replyResetAfterGrant
	replyInterval
	replyDrift
	replyJudged
)

// The flags of a reply.
const (
	flagReplaced = 2
	flagBeside   = 4
	flagJava     = 8 // times the permits that Java holds and one more
)

// newReply names the numbers of a reply to a request of some runs. A brief
// reply answers a request whose callers want no numbers: 0 if all are granted,
// and the us to wait if a lone caller is refused. The number of runs is checked
// here, once, so that split may index without checks.
func newReply(reply redisx.Reply, runs int) (Reply, error) {
	if reply.Brief {
		if wait := reply.At(0); wait > 0 {
			return Reply{judged: []int64{0, wait}, Java: -1}, nil
		}
		return Reply{Java: -1}, nil
	}
	flags := reply.At(replyFlags)
	a := Reply{
		Replaced: flags&flagReplaced != 0,
		Beside:   flags&flagBeside != 0, Java: flags/flagJava - 1,
		Rate: reply.At(replyRate), Left: reply.At(replyLeft),
		reset: reply.At(replyReset), resetAfterGrant: reply.At(replyResetAfterGrant),
		Interval: reply.At(replyInterval), Drift: reply.At(replyDrift), judged: reply.From(replyJudged),
	}
	if a.judged != nil && len(a.judged) != 2*runs {
		return Reply{}, fmt.Errorf("%w %d numbers for %d runs", redisx.ErrShape, len(a.judged), runs)
	}
	return a, nil
}

// grants reports whether any caller was granted permits.
func (a Reply) grants() bool {
	for i := 0; i < len(a.judged); i += 2 {
		if a.judged[i] > 0 {
			return true
		}
	}
	return a.judged == nil
}

// A Run is a number of consecutive equal requests. Many is negative for callers
// that wait (scripts/acquire.lua).
type Run struct{ Permits, Many int64 }

// size returns how many requests it is.
func (r Run) size() int64 { return max(r.Many, -r.Many) }

// asksForHeal reports whether a script has judged nothing (scripts/parts/plain.lua): it replies
// the number of the limiter that is not plain.
func asksForHeal(reply redisx.Reply) bool { return !reply.Brief && reply.Len() == 1 }

// A Split hands out the results of a reply to the callers of a request, in their
// order.
type Split struct {
	reply       Reply
	runs        []Run
	served      int64 // callers of the first of runs that have theirs
	permitsLeft int64 // for the next caller
	anyGranted  bool  // a caller was granted
}

// newSplit returns the Split of a reply. The numbers in a reply are those after all
// grants, so it adds the grants again and next subtracts them one by one.
func newSplit(reply Reply, runs []Run) Split {
	s := Split{reply: reply, runs: runs, permitsLeft: reply.Left}
	for i, run := range runs {
		granted, _ := s.run(i)
		s.permitsLeft += granted * run.Permits
	}
	return s
}

// run returns how many callers of a run are granted, and how long the next one
// waits.
func (s *Split) run(i int) (granted, wait int64) {
	if s.reply.judged == nil {
		return s.runs[i].size(), 0
	}
	return s.reply.judged[2*i], s.reply.judged[2*i+1]
}

// next returns the result of the next caller.
func (s *Split) next() Result {
	granted, wait := s.run(0)
	v := Result{OK: s.served < granted, Limit: s.reply.Rate, Every: s.reply.Interval}
	// A refused caller sees the permits that are left after the grants ahead of
	// it, not after its own.
	if v.OK {
		s.permitsLeft -= s.runs[0].Permits
		s.anyGranted = true
	} else if v.Wait = wait; wait < -1 { // scripts/parts/until.lua
		v.Wait, v.Again = -wait, true
	}
	v.Left, v.Reset = s.permitsLeft, s.reply.reset
	if s.anyGranted {
		v.Reset = s.reply.resetAfterGrant
	}
	if s.served++; s.served == s.runs[0].size() {
		s.runs, s.served = s.runs[1:], 0
		if s.reply.judged != nil {
			s.reply.judged = s.reply.judged[2:]
		}
	}
	return v
}

// Result returns the result of the next caller, or the error if its permits can
// never be there.
func (s *Split) Result(permits int64) (Result, error) {
	v := s.next()
	if v.Wait < 0 {
		return v, failure.Exceeds(permits, v.Limit)
	}
	return v, nil
}
