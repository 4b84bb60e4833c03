package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/back"
	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/queue"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/request"
	"github.com/redisson-go/rratelimiter/limit"
)

// A groupCall sends the request of a Group for its callers. They may leave it; permits that it took then go
// back.
type groupCall struct {
	request.Group
	group      *Group
	party      *party       // its callers; nil if it cannot have several
	cancel     func()       // ends the request
	settlement *Settlement  // whose attempt it is, nil if it takes permits
	lent       *lentSession // of the settlement
	sessions   *sessions    // the pool of its session

	lastFailure atomic.Pointer[error] // of Redis or the network

	results []Result
	err     error
}

// newGroupCall returns a call that takes permits.
func newGroupCall(g *Group, permits []int64, wanted Want) *groupCall {
	call := &groupCall{Group: request.Take(g.targets, permits), group: g, sessions: g.sessions()}
	if call.Numbers = wanted.Numbers; wanted.Lease > 0 || wanted.Reserve {
		call.Reserve(wanted.Lease)
	}
	return call
}

// carryOut carries the call out when its turn has come, or returns an error when ctx ends first.
func (call *groupCall) carryOut(ctx context.Context, budget time.Duration) error {
	e := call.group.engine
	switch err := call.sessions.enter(ctx, e.Context()); {
	case err != nil && err == ctx.Err():
		return call.unanswered(ctx, budget)
	case err != nil:
		return err
	}
	began, left := time.Now(), false
	defer func() {
		if left {
			call.sessions.note(began, errLeft)
		} else {
			call.sessions.note(began, call.err)
		}
		<-call.sessions.underWay
		if left {
			call.group.wrote()
		}
	}()
	caller, sending := ctx, e.Context()
	if call.cancel = func() {}; ctx.Done() != nil {
		// The request does not end with ctx: its outcome says whether to withdraw. The last caller to
		// leave cancels it.
		sending, call.cancel = context.WithCancel(e.Context())
	}
	if call.party != nil && call.party.gather(call) > 1 {
		caller = e.Context() // it belongs to no trace
	}
	if call.settlement != nil {
		call.settlement.begin(call)
	}
	of := queue.Context{Context: sending, Caller: caller, Sender: call}
	if ctx.Done() == nil { // as in Leave, without its closures
		return call.stay(of)
	}
	_, left = redisx.Leave(ctx, e.Context(), e.Work, func(context.Context) struct{} {
		defer call.cancel()
		call.run(of)
		return struct{}{}
	}, func(struct{}) { call.end(true) })
	switch {
	case !left:
		call.end(false)
		return call.err
	case call.party != nil:
		call.party.leave(call.party.leader)
	default:
		call.cancel()
	}
	if e.Closed() {
		return failure.ErrClosed
	}
	return call.unanswered(ctx, budget)
}

// errPanicked is the outcome for the other callers of a call that a hook of go-redis has ended by a panic.
var errPanicked = errors.New("the request was not finished")

// stay carries the call out for a leader that cannot leave.
func (call *groupCall) stay(ctx context.Context) error {
	ran := false
	defer func() {
		if !ran { // a hook of go-redis has panicked
			call.err = errPanicked
		}
		call.end(false)
	}()
	call.run(ctx)
	ran = true
	return call.err
}

// NoteFailure records the error of an attempt that go-redis or the Runner repeats.
func (call *groupCall) NoteFailure(err error) { call.lastFailure.Store(&err) }

// unanswered returns the error of a call whose context has ended. The cause of
// the context says which bound it was (Group.Acquire, Group.ask). It accepts a nil call, which was not made.
func (call *groupCall) unanswered(ctx context.Context, budget time.Duration) error {
	var cause error
	if call != nil {
		if said := call.lastFailure.Load(); said != nil {
			cause = *said
		}
	}
	switch why := context.Cause(ctx); why {
	case failure.ErrBudgetSpent:
		return failure.Silent(budget, cause)
	case limit.ErrNoAnswer:
		return failure.Unanswered(why, cause)
	}
	return failure.Unanswered(ctx.Err(), cause)
}

// granted reports whether all members have granted.
func (call *groupCall) granted() bool { return request.Granted(call.results) }

// run sends the request.
func (call *groupCall) run(ctx context.Context) {
	e := call.group.engine
	if call.Session() == nil {
		call.Identify(call.sessions.take(e.source))
	}
	call.results, call.err = call.Send(ctx)
	if call.err != nil && e.Closed() && !redisx.Final(call.err) {
		call.err = failure.ErrClosed
	}
}

// end withdraws permits that the call may have taken but its caller does not get, because
// the outcome is unknown or the caller has left. Only then is the session free
// (groupWithdrawal.run).
func (call *groupCall) end(left bool) {
	settles := call.settlement != nil
	granted := call.err == nil && !settles && call.granted()
	if call.err != nil || settles || granted {
		call.group.wrote()
	}
	claimed := call.deliver(left)
	unknown := call.err != nil && (call.Ambiguous() || call.err == errPanicked)
	switch {
	case settles:
		if call.err == nil { // otherwise another attempt may follow (Settlement)
			call.sessions.putOnce(call.lent)
		}
	case unknown || granted && claimed < call.Times:
		call.withdraw(claimed)
	default:
		call.sessions.put(call.Session())
	}
}

// deliver gives the callers their results, and returns how many of them are still there.
func (call *groupCall) deliver(left bool) int64 {
	switch {
	case call.party == nil && left:
		return 0
	case call.party == nil:
		return call.Times
	case left:
		call.party.leave(call.party.leader) // which may not have done so yet
	}
	return call.party.deliver(call)
}

// withdraw gives back the permits that a call may have taken, except those of callers that are still there.
func (call *groupCall) withdraw(claimed int64) {
	w := &groupWithdrawal{
		engine: call.group.engine, sessions: call.sessions, session: call.Session(),
		from: call.group.targets, withdrawals: call.Withdrawals(claimed, call.err),
	}
	w.TakeBack()
}

// A groupWithdrawal has the unowned permits of a Group call.
type groupWithdrawal struct {
	engine      *Engine
	sessions    *sessions // the pool of session
	session     any
	from        []*request.Target // limiters that have not confirmed it
	withdrawals []*request.Withdrawal
}

// TakeBack sends the remaining requests in the background.
func (w *groupWithdrawal) TakeBack() bool { return w.engine.Work(w.run) }

// run sends the remaining requests. After the last one it frees the session.
func (w *groupWithdrawal) run(ctx context.Context) {
	for len(w.from) > 0 {
		next := w.withdrawals[0]
		_, err := w.from[0].Withdraw(next).Send(ctx)
		settled := err == nil || errors.Is(err, failure.ErrNotInitialized)
		w.engine.back.Note(settled)
		switch {
		case next.MayCome(err):
			back.Later(w, next.Since)
			return
		case !settled:
			if ctx.Err() == nil && time.Since(next.Since) < back.GiveUpAfter {
				w.engine.back.Add(w)
			}
			return
		}
		w.from, w.withdrawals = w.from[1:], w.withdrawals[1:]
	}
	w.sessions.put(w.session)
}
