package engine

import (
	"time"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A ticket makes a waiter the place of a group's caller in the line of one limiter. The
// place is in the line only where that limiter refuses the caller. Otherwise others pass:
// one user that has no permits must not keep all others from those they share. When the
// limiter refuses later, the place is where it was, ahead of those that came after it.
//
// The places in all lines are given at one moment. So of two callers the same one is ahead
// in each line that they share, and they never wait for one another.
type ticket struct {
	wake chan struct{} // capacity one: it may be the caller's turn
}

// A groupCaller stands in the lines of all members of a Group.
type groupCaller struct {
	group        *Group
	permits      []int64
	queues       []*queue  // by member
	places       []*waiter // in their lines
	wake         chan struct{}
	refusedUntil time.Time // until then Redis can grant nothing, as it said to the last call
	lastCall     *groupCall
	missedTurns  int       // how often a member refused that had let others pass
	blocksUntil  time.Time // until then it holds up others at members that do not refuse
}

// newGroupCaller takes a place in the line of each member, after a call that was refused, or
// without one (nil) where others wait.
func newGroupCaller(g *Group, permits []int64, last *groupCall) *groupCaller {
	gc := &groupCaller{group: g, permits: permits, wake: make(chan struct{}, 1)}
	ticket := &ticket{gc.wake}
	g.engine.groups.waitingCallers.Add(1)
	qs := &g.engine.queues
	qs.mu.Lock()
	for _, l := range g.limiters { // nobody else locks more than one: qs.mu is held
		gc.queues = append(gc.queues, qs.lock(l))
	}
	qs.mu.Unlock()
	for i, q := range gc.queues {
		waits := !q.line.empty()
		q.line.groupPlaces++
		q.line.lastRank++
		w := &waiter{
			Want: Want{Permits: permits[i], Timeout: Forever}, bounded: true,
			ticket: ticket, rank: q.line.lastRank,
		}
		gc.places = append(gc.places, w)
		if last == nil && waits {
			q.line.insertPlace(w)
		}
	}
	for i, q := range gc.queues {
		if last != nil {
			gc.noteReply(i, last)
		}
		q.start()
	}
	gc.lastCall = last
	for _, q := range gc.queues {
		q.mu.Unlock()
	}
	return gc
}

// refused notes a call that was refused in all lines.
func (gc *groupCaller) noteRefusal(call *groupCall) {
	for i, q := range gc.queues {
		q.mu.Lock()
		gc.noteReply(i, call)
		q.start()
		q.mu.Unlock()
	}
	gc.lastCall = call
}

// Members that refuse in turn can keep a caller from ever having all of them at once. So
// when a member has refused that had let others pass, the caller holds up others at all of
// its members, for as long as those that refuse say, but no longer than firstHold, and
// twice as long after each further time, up to longestHold.
const (
	firstBlock   = 250 * time.Millisecond
	longestBlock = time.Minute
)

// holdFor returns how long a caller may hold up others at a member that does not refuse.
func (gc *groupCaller) blockFor() time.Duration {
	if gc.missedTurns == 0 {
		return 0
	}
	return min(longestBlock, firstBlock<<min(gc.missedTurns-1, 10))
}

// longest returns how long the members that refuse have the call wait.
func (call *groupCall) longestWait() time.Duration {
	wait := time.Duration(0)
	for _, v := range call.verdicts {
		if !v.OK {
			wait = max(wait, wire.Microseconds(max(1, v.Wait)))
		}
	}
	return wait
}

// mark notes what a member has said to a call. Guarded by the mu of its queue.
func (gc *groupCaller) noteReply(i int, call *groupCall) {
	q, w, v, longest := gc.queues[i], gc.places[i], call.verdicts[i], call.longestWait()
	if v.Limit > 0 {
		q.lastReply.rate = v.Limit
	}
	gc.refusedUntil = call.start.Add(longest)
	wait := v.Wait
	switch {
	case !v.OK && gc.lastCall != nil && gc.lastCall.verdicts[i].OK && w.list == nil:
		gc.missedTurns++
	case v.OK && longest > gc.blockFor():
		if q.line.takeOut(w) {
			q.line.scheduleProbe() // for those behind it
		}
		return
	case v.OK:
		wait = longest.Microseconds()
		gc.blocksUntil = call.start.Add(longest)
	}
	if w.list == nil {
		q.line.insertPlace(w)
	}
	if q.line.first == w {
		q.line.refuseExpired()
		if q.line.probe != probeNext {
			q.line.probe = probeUnderWay
		}
		q.line.dueAfter(wait, call.start)
	}
}

// turn reports whether it is the caller's turn to ask: it is the first in each line that
// it stands in. A member that may have permits while it waits for its turn at another one
// is left to those behind it.
func (gc *groupCaller) claimTurn() bool {
	turn := true
	for i, q := range gc.queues {
		q.mu.Lock()
		turn = turn && (gc.places[i].list == nil || q.line.first == gc.places[i])
		q.mu.Unlock()
	}
	for i, q := range gc.queues {
		q.mu.Lock()
		switch w := gc.places[i]; {
		case w.list == nil || q.line.first != w:
		case turn:
			q.line.probe = probeUnderWay // nothing has changed since
		case q.line.probe == probeNext && time.Now().After(gc.blocksUntil) && q.line.takeOut(w):
			q.start()
		}
		q.mu.Unlock()
	}
	return turn
}

// leave gives the places back.
func (gc *groupCaller) leave() {
	gc.group.engine.groups.waitingCallers.Add(-1)
	for i, q := range gc.queues {
		q.mu.Lock()
		q.line.groupPlaces--
		if q.line.takeOut(gc.places[i]) {
			q.line.scheduleProbe()
		}
		q.start()
		q.mu.Unlock()
		q.engine.queues.retire(q)
	}
}
