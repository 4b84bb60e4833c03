package engine

import (
	"time"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A groupCaller stands in the lines of all members of a Group.
type groupCaller struct {
	group        *Group
	permits      []int64
	places       []place // by member
	wake         chan struct{}
	refusedUntil time.Time // Redis can grant nothing before, by its last reply
	lastReply    groupReply
	missedTurns  int       // refusals by members in whose lines it had been overtaken
	blocksUntil  time.Time // it blocks the lines of granting members until then
}

// newGroupCaller takes a place in the line of each member. last is a reply that
// has refused; none if the caller has not asked because there is a line.
func newGroupCaller(g *Group, permits []int64, last groupReply) *groupCaller {
	gc := &groupCaller{group: g, permits: permits, wake: make(chan struct{}, 1)}
	ticket := &ticket{gc.wake}
	g.engine.groups.waitingCallers.Add(1)
	for _, l := range g.limiters {
		g.engine.upper.Waits(l)
	}
	qs := &g.engine.queues
	qs.mu.Lock()
	for i, l := range g.limiters { // no deadlock: only here, and under qs.mu, are several queues locked
		gc.places = append(gc.places, qs.lock(l).reserve(permits[i], ticket))
	}
	qs.mu.Unlock()
	// All queues are locked here.
	for i, p := range gc.places {
		if last.results != nil {
			gc.noteReply(i, last)
		} else if !p.queue.line.empty() {
			p.stand()
		}
	}
	// Set after noteReply, which compares the new reply with the last one.
	gc.lastReply = last
	for _, p := range gc.places {
		p.queue.start()
		p.queue.mu.Unlock()
	}
	return gc
}

// noteRefusal records a refusal in all lines.
func (gc *groupCaller) noteRefusal(reply groupReply) {
	for i, p := range gc.places {
		p.queue.mu.Lock()
		gc.noteReply(i, reply)
		p.queue.start()
		p.queue.mu.Unlock()
	}
	gc.lastReply = reply
}

// Members that refuse alternately can keep a caller from ever having all of them at once.
// So when a member refuses in whose line the caller had been overtaken, the caller blocks
// the lines of all its members for as long as the refusing members say. The bound is
// firstBlock at first, and twice the last one after each further refusal of that kind, up
// to longestBlock: blocking costs every other caller, so it grows only if shorter blocks
// did not help.
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
func (r groupReply) longestWait() time.Duration {
	wait := time.Duration(0)
	for _, v := range r.results {
		if !v.OK {
			wait = max(wait, wire.Microseconds(max(1, v.Wait)))
		}
	}
	return wait
}

// noteReply records the reply of a member. Guarded by the mu of its queue.
func (gc *groupCaller) noteReply(i int, reply groupReply) {
	p, v, longest := gc.places[i], reply.results[i], reply.longestWait()
	if v.Limit > 0 {
		p.queue.lastReply.rate = v.Limit
	}
	gc.refusedUntil = reply.start.Add(longest)
	wait := v.Wait
	switch {
	case !v.OK && gc.lastReply.results != nil && gc.lastReply.results[i].OK && !p.inLine():
		gc.missedTurns++
	case v.OK && longest > gc.blockFor():
		p.stepAside()
		return
	case v.OK:
		wait = longest.Microseconds()
		gc.blocksUntil = reply.start.Add(longest)
	}
	p.stand()
	p.noteRefusal(wait, reply.start)
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
	for _, p := range gc.places {
		turn = p.hasTurn() && turn
	}
	for _, p := range gc.places {
		if turn {
			p.noteProbe()
		} else if time.Now().After(gc.blocksUntil) {
			p.leavePermits()
		}
	}
	return turn
}

// leave gives the places back.
func (gc *groupCaller) leave() {
	gc.group.engine.groups.waitingCallers.Add(-1)
	for _, p := range gc.places {
		p.giveBack()
	}
}
