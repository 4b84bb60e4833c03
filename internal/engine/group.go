package engine

import (
	"context"
	"errors"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// MaxMembers is the most limiters that a Group has. The text and the time of its script grow with
// each member (scripts.go).
const MaxMembers = 8

// A Group is several limiters that decide together, by one script call (scripts/all.lua). It
// is a cheap handle.
type Group struct {
	engine   *Engine
	limiters []*Limiter
	key      meetingKey // of its meetings, without permits
}

// A groupReply is the reply to one caller of a Group.
type groupReply struct {
	results []Result // by member; nil if there is none
	start   time.Time
}

// granted reports whether all members have granted.
func (r groupReply) granted() bool { return Granted(r.results) }

// Limiters returns the members.
func (g *Group) Limiters() []*Limiter { return g.limiters }

// groups is the state that the calls of all Groups of an Engine share.
type groups struct {
	waitingCallers atomic.Int64 // callers that stand in lines
	sessionCount   atomic.Int64 // names the sessions
	sessions       [Servers]sessions
	shards         shards
	meetings       meetings
}

func (gs *groups) init() {
	gs.meetings.seed = maphash.MakeSeed()
	for i := range gs.sessions {
		gs.sessions[i].underWay = make(chan struct{}, groupCallsAtOnce)
	}
}

// Acquire asks Redis until it grants, the timeout passes or ctx ends. permits has
// one element per member. Limiter.Check has checked the arguments.
func (g *Group) Acquire(ctx context.Context, permits []int64, wanted Want) ([]Result, error) {
	first, callerCtx, end := g.limiters[0], ctx, time.Now().Add(wanted.Timeout)
	if wanted.Timed() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, end.Add(Grace), limit.ErrNoAnswer)
		defer cancel()
	}
	var last groupReply
	if !wanted.Waits() || !g.HasLine() {
		// A caller that does not wait, or finds no line, asks at once. A caller behind a
		// line must not, because it would take permits due to the callers in line.
		reply, err := g.ask(ctx, permits, wanted)
		refused := err == nil && !reply.granted() && wanted.Lease == 0
		if refused && g.engine.upper.Free(ctx, &wanted, g.limiters...) {
			if again, err := g.ask(ctx, permits, wanted); err == nil { // otherwise Redis has said no
				reply = again
			}
		}
		if err != nil || reply.granted() || !wanted.Waits() {
			return reply.results, first.Named(err)
		}
		last = reply
	}
	inLineSince := time.Now()
	gc := newGroupCaller(g, permits, last)
	// The places must be given back on every return: a place at the head blocks
	// the line.
	defer gc.leave()
	var timeout <-chan time.Time // nil if it never passes
	if wanted.Timed() {
		timer := time.NewTimer(time.Until(end))
		defer timer.Stop()
		timeout = timer.C
	}
	v, err := gc.wait(waitEnds{ctx, callerCtx, timeout}, wanted, last)
	if err != nil {
		v = make([]Result, len(permits))
	}
	for i := range v {
		v[i].Queued = time.Since(inLineSince)
	}
	return v, first.Named(err)
}

// waitEnds are the ways in which a wait ends.
type waitEnds struct {
	// callsCtx is the context of the calls. It ends Grace after the timeout, so
	// that the last call can still be answered.
	callsCtx  context.Context
	callerCtx context.Context
	timeout   <-chan time.Time // nil if it never passes
}

// wait asks whenever it is the caller's turn, and once more when its timeout passes.
func (gc *groupCaller) wait(ends waitEnds, wanted Want, last groupReply) ([]Result, error) {
	g := gc.group
	for expired := false; ; {
		turn := gc.claimTurn()
		if expired && !turn {
			return make([]Result, len(gc.permits)), nil // waiters ahead would be served first
		}
		if turn {
			reply, err := g.ask(ends.callsCtx, gc.permits, wanted)
			switch {
			case expired && errors.Is(err, limit.ErrNoAnswer) && gc.refusedUntil.After(time.Now()):
				return last.results, nil // Redis had said that the permits come later
			case err != nil || reply.granted() || expired:
				return reply.results, err
			}
			last = reply
			gc.noteRefusal(reply)
		}
		select {
		case <-gc.wake:
		case <-ends.timeout:
			expired = true
		case <-ends.callerCtx.Done():
			return nil, ends.callerCtx.Err()
		case <-g.engine.Context().Done():
			return nil, ErrClosed
		}
	}
}

// ask asks once, within the budget. It returns an ErrPermitsExceedRate if
// the permits can never be there: waiting for them would block the lines of all
// members.
func (g *Group) ask(ctx context.Context, permits []int64, wanted Want) (reply groupReply, err error) {
	if wanted.Budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, wanted.Budget, errSilent)
		defer cancel()
	}
	if wanted.Reserve || wanted.Lease > 0 { // with records of its own
		call := newGroupCall(g, permits, wanted)
		if err = call.carryOut(ctx, wanted.Budget); err == nil { // otherwise it may still go on
			reply = groupReply{call.results, call.start}
		}
	} else {
		reply, err = g.meet(ctx, permits, wanted)
	}
	if err != nil {
		return groupReply{}, err
	}
	for i, v := range reply.results {
		if v.Wait < 0 && !v.OK {
			return groupReply{}, g.limiters[i].Named(Exceeds(permits[i], v.Limit))
		}
	}
	return reply, nil
}

// check reads each limiter, which determines its type, and returns the first error.
func (g *Group) check(ctx context.Context) error {
	for _, l := range g.limiters {
		if _, err := l.peek(ctx); err != nil {
			return l.Named(err)
		}
	}
	return nil
}

// HasLine reports whether a member has a line.
func (g *Group) HasLine() bool {
	qs := &g.engine.queues
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for _, l := range g.limiters {
		if q := qs.byHash[l.Hash]; q != nil && q.hasLine() {
			return true
		}
	}
	return false
}
