package rratelimiter

import (
	"fmt"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// Result is what Allow and Peek return: the numbers that a caller may want to pass on,
// the same for all limiters of this module. Of a RateLimiter:
//
// Name is that of the limiter, as it was given. Limit is the rate, Interval that of the
// limit in Redis.
//
// Remaining is exact for Allow. Peek may return too few when more than 1,000 grants have
// ended that no call has counted yet, and more than 1,000 have not ended.
//
// RetryAfter is exact to the us unless more than 5,000 grants have to end first: then it
// is ResetAfter. It is at most an interval, and with WithResolution that of the
// resolution besides. Where other clients have clocks of their own that are ahead, it may
// be longer by a tenth of an interval, at most a second. ResetAfter has the same bounds,
// and is rounded up to a ms.
//
// Degraded reports that Redis did not decide. It has failed, and the Fallback did; or it
// is just back, and the share of this Client is taken; or limiting is off. Then Limit is
// 0 if the Client has not learnt the rate, and Remaining is what this Client may take by
// itself, 0 if it may take anything or nothing.
type Result = limit.Result

// A verdict is what one caller gets.
type verdict struct {
	ok    bool
	wait  int64 // us until the permits are there, if refused; 0 not known, -1 never
	again bool  // wait is when to look again: the permits may be there no sooner than all
	limit int64
	every int64 // ms of the interval
	left  int64 // permits, may be negative
	reset int64 // ms until all are back

	degraded bool  // Redis has not decided
	drift    int64 // permits by which the value was wrong, which this call has put right
	batch    int   // callers whom the request judged
	queued   time.Duration
}

// result returns the numbers for the callers of the limiter called name.
func (v verdict) result(name string, given *givenRate) Result {
	r := Result{
		Allowed: v.ok, Name: name, Limit: v.limit, Interval: milliseconds(max(0, v.every)),
		Remaining: min(max(0, v.left), max(0, v.limit)), RetryAfter: microseconds(max(0, v.wait)),
		ResetAfter: milliseconds(v.reset), Degraded: v.degraded,
	}
	if v.again {
		r.RetryAfter = r.ResetAfter
	}
	if given != nil {
		r.Policy = given.policy
	}
	return r
}

// An acquireReply is the reply of acquire.lua, and of peek.lua.
type acquireReply struct {
	again     bool  // nothing was judged: ask again
	rate      int64 // 0 where it is not told, as below
	left      int64 // permits, may be negative
	reset     int64 // ms until all permits are back, without what is granted now
	resetThen int64 // the same with it
	every     int64 // ms of the interval
	drift     int64 // permits by which the value was wrong that the call has put right

	// judged has two numbers for each run: how many of it are granted, and the us
	// that the next one waits. It is nil when all are granted.
	judged []int64
}

// The places of the numbers in a reply that is a table (parts/numbers.lua).
const (
	replyAgain = iota
	replyRate
	replyLeft
	replyReset
	replyResetThen
	replyInterval
	replyDrift
	replyJudged
)

// newAcquireReply names the numbers of a reply to so many runs. A brief reply is
// that of a request whose numbers nobody asks for: 0 when all are granted, and the
// us to wait when a lone caller is refused.
func newAcquireReply(reply redisx.Reply, runs int) (acquireReply, error) {
	if reply.Brief {
		if wait := reply.At(0); wait > 0 {
			return acquireReply{judged: []int64{0, wait}}, nil
		}
		return acquireReply{}, nil
	}
	a := acquireReply{
		again: reply.At(replyAgain) != 0, rate: reply.At(replyRate), left: reply.At(replyLeft),
		reset: reply.At(replyReset), resetThen: reply.At(replyResetThen),
		every: reply.At(replyInterval), drift: reply.At(replyDrift), judged: reply.From(replyJudged),
	}
	if !a.again && a.judged != nil && len(a.judged) != 2*runs {
		return acquireReply{}, fmt.Errorf("%w %d numbers for %d runs", redisx.ErrShape, len(a.judged), runs)
	}
	return a, nil
}

// grants reports whether any request was granted.
func (a acquireReply) grants() bool {
	for i := 0; i < len(a.judged); i += 2 {
		if a.judged[i] > 0 {
			return true
		}
	}
	return a.judged == nil
}

// A split hands out the verdicts of a reply to the callers of a request, in their
// order.
type split struct {
	reply acquireReply
	runs  []run
	done  int64 // callers of the first of runs
	left  int64 // permits for the next caller
	any   bool  // somebody was granted
}

func newSplit(reply acquireReply, runs []run) *split {
	s := &split{reply: reply, runs: runs, left: reply.left}
	for i, run := range runs {
		granted, _ := s.run(i)
		s.left += granted * run.permits
	}
	return s
}

// run returns how many of a run are granted, and how long the next one waits.
func (s *split) run(i int) (granted, wait int64) {
	if s.reply.judged == nil {
		return s.runs[i].size(), 0
	}
	return s.reply.judged[2*i], s.reply.judged[2*i+1]
}

func (s *split) next() verdict {
	granted, wait := s.run(0)
	v := verdict{ok: s.done < granted, limit: s.reply.rate, every: s.reply.every}
	if v.ok {
		s.left -= s.runs[0].permits
		s.any = true
	} else if v.wait = wait; wait < -1 { // scripts/parts/due.lua
		v.wait, v.again = -wait, true
	}
	v.left, v.reset = s.left, s.reply.reset
	if s.any {
		v.reset = s.reply.resetThen
	}
	if s.done++; s.done == s.runs[0].size() {
		s.runs, s.done = s.runs[1:], 0
		if s.reply.judged != nil {
			s.reply.judged = s.reply.judged[2:]
		}
	}
	return v
}

// verdict returns what a caller gets, or the error if its permits can never be
// there.
func (q *queue) verdict(s *split, permits int64) (verdict, error) {
	v := s.next()
	if v.wait < 0 {
		return v, q.keys.exceeds(permits, v.limit)
	}
	return v, nil
}

// A refusal is the first one of those in line: nobody behind it is served.
type refusal struct {
	*waiter
	left  bool  // its caller has gone meanwhile
	wait  int64 // us until its permits are there
	again bool  // or until it may look again
}

// A tally is what has become of the waiters of a batch.
type tally struct {
	granted int64
	waited  int64 // those of them that were granted to callers who may wait
	over    int64 // those of them that were granted to callers who have left
	first   refusal
}

// add counts the verdict of a waiter.
func (sum *tally) add(w *waiter, v verdict, err error) {
	left := w.standing == gone
	switch {
	case v.ok:
		sum.granted += w.permits
	case w.waits() && err == nil && sum.first.waiter == nil:
		sum.first = refusal{w, left, v.wait, v.again}
	}
	if v.ok && w.waits() {
		sum.waited += w.permits
	}
	if v.ok && left {
		sum.over += w.permits
	}
}

// holds reports whether a waiter in line is refused as well: yes, unless the refused
// caller has left and this one wants less.
func (first refusal) holds(w *waiter) bool {
	return first.waiter != nil && (!first.left || w.permits >= first.permits)
}
