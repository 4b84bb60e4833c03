package engine

import (
	"time"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A ticket marks a waiter as standing in for a Group call in the line of one
// member. The waiter's place is in the line only while that member refuses the
// caller. Otherwise later waiters overtake it: one user without permits must not
// keep all users from a limit they share. When the member refuses later, the
// place returns to where it was.
//
// A caller gets its places in all lines at one moment, under the locks of all
// queues. So of two callers the same one is ahead in each line they share, and
// they never wait for one another.
type ticket struct {
	wake chan struct{} // capacity one: the caller's turn may have come
}

// A groupCaller stands in the lines of all members of a Group.
type groupCaller struct {
	group        *Group
	permits      []int64
	queues       []*queue  // by member
	places       []*waiter // by member
	wake         chan struct{}
	refusedUntil time.Time // until when Redis can grant nothing, by the last reply
	lastCall     *groupCall
	missedTurns  int       // refusals by members at which its place had been overtaken
	blocksUntil  time.Time // until when it blocks the lines of members that grant
}

// newGroupCaller takes a place in the line of each member. last is a call that
// was refused; nil if the caller has not asked because there is a line.
func newGroupCaller(g *Group, permits []int64, last *groupCall) *groupCaller {
	gc := &groupCaller{group: g, permits: permits, wake: make(chan struct{}, 1)}
	ticket := &ticket{gc.wake}
	g.engine.groups.waitingCallers.Add(1)
	qs := &g.engine.queues
	qs.mu.Lock()
	for _, l := range g.limiters { // no deadlock: only here, and under qs.mu, are several queues locked
		gc.queues = append(gc.queues, qs.lock(l))
	}
	qs.mu.Unlock()
	// All queues are locked here. A place counts as reserved even while it is not
	// in the line, so that its queue is not retired.
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
	// Set after noteReply, which compares the new call with the last one.
	gc.lastCall = last
	for _, q := range gc.queues {
		q.mu.Unlock()
	}
	return gc
}

// noteRefusal records a refused call in all lines.
func (gc *groupCaller) noteRefusal(call *groupCall) {
	for i, q := range gc.queues {
		q.mu.Lock()
		gc.noteReply(i, call)
		q.start()
		q.mu.Unlock()
	}
	gc.lastCall = call
}

// Members that refuse alternately can keep a caller from ever having all of them
// at once. So when a member refuses at which the caller's place had been
// overtaken, the caller blocks the lines of all its members for as long as the
// refusing ones say. The bound is firstBlock at first, and twice the last one
// after each further refusal of that kind, up to longestBlock: blocking costs
// every other caller, so it grows only if shorter blocks did not help.
const (
	firstBlock   = 250 * time.Millisecond
	longestBlock = time.Minute
)

// blockFor returns how long a caller may block the line of a member that grants.
func (gc *groupCaller) blockFor() time.Duration {
	if gc.missedTurns == 0 {
		return 0
	}
	return min(longestBlock, firstBlock<<min(gc.missedTurns-1, 10))
}

// longestWait returns the longest wait that the refusing members name.
func (call *groupCall) longestWait() time.Duration {
	wait := time.Duration(0)
	for _, v := range call.verdicts {
		if !v.OK {
			wait = max(wait, wire.Microseconds(max(1, v.Wait)))
		}
	}
	return wait
}

// noteReply records the reply of a member. Guarded by the mu of its queue.
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
			q.line.scheduleProbe() // for the waiters behind it
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

// claimTurn reports whether it is the caller's turn to ask: it is first in each
// line that it stands in. If it is not, a member whose permits may be there is
// left to the waiters behind, because the caller cannot use them yet.
//
// The lines are locked one by one. If another place returns ahead of this one
// meanwhile, the call overtakes it, once. Locking all of them for each look would
// make the queues of all members wait for each other.
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
