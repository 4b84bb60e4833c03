package engine

import (
	"context"
	"errors"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/queue"
	"github.com/redisson-go/rratelimiter/internal/request"
	"github.com/redisson-go/rratelimiter/limit"
)

// MaxMembers is the most limiters that a Group has.
const MaxMembers = request.MaxMembers

// A Group is several limiters that decide together, by one script call (scripts/all.lua). It
// is a cheap handle.
type Group struct {
	engine   *Engine
	limiters []*Limiter
	targets  []*request.Target
	key      meetingKey         // of its meetings, without permits
	room     [1]*request.Target // for the targets of a Keyed
}

// Group returns the Group of the limiters: 1 to MaxMembers of them, with
// different hashes and on one server (Limiter.Together).
func (e *Engine) Group(limiters ...*Limiter) *Group {
	g := &Group{engine: e, limiters: limiters, key: keyOf(limiters)}
	g.targets = g.room[:0]
	for _, l := range limiters {
		g.targets = append(g.targets, &l.Target)
	}
	return g
}

// sessions returns the sessions of the server of the members.
func (g *Group) sessions() *sessions { return &g.engine.groups.sessions[g.targets[0].Server()] }

// wrote tells the Upper that a call may have changed permits.
func (g *Group) wrote() {
	for _, t := range g.targets {
		g.engine.upper.Wrote(t.Hash)
	}
}

// A groupReply is the reply to one caller of a Group.
type groupReply struct {
	results []Result // by member; nil if there is none
	start   time.Time
}

// granted reports whether all members have granted.
func (r groupReply) granted() bool { return request.Granted(r.results) }

// Limiters returns the members.
func (g *Group) Limiters() []*Limiter { return g.limiters }

// groups is the state that the calls of all Groups of an Engine share.
type groups struct {
	waitingCallers atomic.Int64 // callers that stand in lines
	sessions       [request.Servers]sessions
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
		ctx, cancel = context.WithDeadlineCause(ctx, end.Add(queue.Grace), limit.ErrNoAnswer)
		defer cancel()
	}
	var last groupReply
	if !wanted.Waits() || !g.HasLine() {
		// A caller that does not wait, or finds no line, asks at once. A caller behind a
		// line must not, because it would take permits due to the callers in line.
		reply, err := g.ask(ctx, permits, wanted)
		if err == nil && !reply.granted() && wanted.Lease == 0 {
			hurried, freed := wanted, false // in line, each call has the whole budget
			if hurried.Budget, freed = g.engine.upper.Free(ctx, wanted.Budget, g.targets...); freed {
				if again, err := g.ask(ctx, permits, hurried); err == nil { // otherwise Redis has said no
					reply = again
				}
			}
		}
		if err != nil || reply.granted() || !wanted.Waits() {
			return reply.results, first.Named(err)
		}
		last = reply
	}
	inLineSince := time.Now()
	g.engine.groups.waitingCallers.Add(1)
	defer g.engine.groups.waitingCallers.Add(-1)
	places := g.engine.queues.Stand(g.targets, permits, last.results, last.start)
	defer places.Leave()
	var timeout <-chan time.Time // nil if it never passes
	if wanted.Timed() {
		timer := time.NewTimer(time.Until(end))
		defer timer.Stop()
		timeout = timer.C
	}
	w := waiting{group: g, places: places, permits: permits, wanted: wanted, last: last}
	v, err := w.wait(ctx, callerCtx, timeout)
	if err != nil {
		v = make([]Result, len(permits))
	}
	for i := range v {
		v[i].Queued = time.Since(inLineSince)
	}
	return v, first.Named(err)
}

// waiting is a call that waits in the lines of all members.
type waiting struct {
	group   *Group
	places  *queue.Places
	permits []int64
	wanted  Want
	last    groupReply
}

// wait asks whenever it is the caller's turn, and once more when its timeout passes. calls is the context of
// the calls: it ends Grace after the timeout, so that the last call can still be answered.
func (w *waiting) wait(calls, caller context.Context, timeout <-chan time.Time) ([]Result, error) {
	for expired := false; ; {
		turn := w.places.ClaimTurn()
		if expired && !turn {
			return make([]Result, len(w.permits)), nil // waiters ahead would be served first
		}
		if turn {
			reply, err := w.group.ask(calls, w.permits, w.wanted)
			switch {
			case expired && errors.Is(err, limit.ErrNoAnswer) && w.places.RefusedUntil.After(time.Now()):
				return w.last.results, nil // Redis had said that the permits come later
			case err != nil || reply.granted() || expired:
				return reply.results, err
			}
			w.last = reply
			w.places.NoteRefusal(reply.results, reply.start)
		}
		select {
		case <-w.places.Wake:
		case <-timeout:
			expired = true
		case <-caller.Done():
			return nil, caller.Err()
		case <-w.group.engine.Context().Done():
			return nil, failure.ErrClosed
		}
	}
}

// ask asks once, within the budget. It returns an ErrPermitsExceedRate if
// the permits can never be there: waiting for them would block the lines of all
// members.
func (g *Group) ask(ctx context.Context, permits []int64, wanted Want) (reply groupReply, err error) {
	if wanted.Budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, wanted.Budget, failure.ErrBudgetSpent)
		defer cancel()
	}
	if wanted.Reserve || wanted.Lease > 0 { // with records of its own
		call := newGroupCall(g, permits, wanted)
		if err = call.carryOut(ctx, wanted.Budget); err == nil { // otherwise it may still go on
			reply = groupReply{call.results, call.Start()}
		}
	} else {
		reply, err = g.meet(ctx, permits, wanted)
	}
	if err != nil {
		return groupReply{}, err
	}
	for i, v := range reply.results {
		if v.Wait < 0 && !v.OK {
			return groupReply{}, g.limiters[i].Named(failure.Exceeds(permits[i], v.Limit))
		}
	}
	return reply, nil
}

// HasLine reports whether a member has a line.
func (g *Group) HasLine() bool { return g.engine.queues.HasLine(g.targets) }
