package rratelimiter

import (
	"slices"
	"time"
)

// A ticket makes a waiter the place of a group's caller in the line of one limiter. The
// place is in the line only where that limiter refuses the caller. Otherwise others pass:
// one user that has no permits must not keep all others from those they share. When the
// limiter refuses later, the place is where it was, ahead of those that came after it.
//
// The places in all lines are given at one moment. So of two callers the same one is ahead
// in each line that they share, and they never wait for one another.
type ticket struct {
	poke chan struct{} // capacity one: it may be the caller's turn
}

// ofGroup reports whether a waiter is the place of a group's caller: no batch judges it.
// A nil waiter is none.
func (w *waiter) ofGroup() bool { return w != nil && w.ticket != nil }

// hold puts a place into the line. Guarded by mu.
func (q *queue) hold(w *waiter) {
	behind := q.line.last
	for behind != nil && behind.place > w.place {
		behind = behind.prev
	}
	w.standing = inLine
	q.line.insert(w, behind)
}

// remind tells the group's caller at the head of the line that it may be its turn. Guarded
// by mu.
func (q *queue) remind() {
	if head := q.line.first; head.ofGroup() && q.probe == probeNext {
		select {
		case head.ticket.poke <- struct{}{}:
		default:
		}
	}
}

// A groupCaller stands in the lines of all members of a Group.
type groupCaller struct {
	group   *Group
	permits []int64
	queues  []*queue  // by member
	places  []*waiter // in their lines
	poke    chan struct{}
	known   time.Time // until then Redis can grant nothing, as it said to the last call
	last    *groupCall
	missed  int       // how often a member refused that had let others pass
	held    time.Time // until then it holds up others at members that do not refuse
}

// othersWait reports whether somebody stands in the line of a member.
func (g *Group) othersWait() bool {
	c := g.client
	c.queuesMu.Lock()
	defer c.queuesMu.Unlock()
	return slices.ContainsFunc(g.members, func(m *member) bool {
		q := c.queues[m.keys.Hash]
		if q == nil {
			return false
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		return !q.line.empty()
	})
}

// stand takes a place in the line of each member, after a call that was refused, or
// without one (nil) where others wait.
func (g *Group) stand(permits []int64, last *groupCall) *groupCaller {
	gc := &groupCaller{group: g, permits: permits, poke: make(chan struct{}, 1)}
	ticket := &ticket{gc.poke}
	c := g.client
	c.groupWaiting.Add(1)
	c.queuesMu.Lock()
	for _, m := range g.members { // nobody else locks more than one: queuesMu is held
		gc.queues = append(gc.queues, c.lockedQueue(m.keys))
	}
	c.queuesMu.Unlock()
	for i, q := range gc.queues {
		waits := !q.line.empty()
		q.reserved++
		q.places++
		w := &waiter{
			want: want{permits: permits[i], timeout: forever}, bounded: true, ticket: ticket, place: q.places,
		}
		gc.places = append(gc.places, w)
		if last == nil && waits {
			q.hold(w)
		}
	}
	for i, q := range gc.queues {
		if last != nil {
			gc.mark(i, last)
		}
		q.start()
	}
	gc.last = last
	for _, q := range gc.queues {
		q.mu.Unlock()
	}
	return gc
}

// refused notes a call that was refused in all lines.
func (gc *groupCaller) refused(call *groupCall) {
	for i, q := range gc.queues {
		q.mu.Lock()
		gc.mark(i, call)
		q.start()
		q.mu.Unlock()
	}
	gc.last = call
}

// Members that refuse in turn can keep a caller from ever having all of them at once. So
// when a member has refused that had let others pass, the caller holds up others at all of
// its members, for as long as those that refuse say, but no longer than firstHold, and
// twice as long after each further time, up to longestHold.
const (
	firstHold   = 250 * time.Millisecond
	longestHold = time.Minute
)

// holdFor returns how long a caller may hold up others at a member that does not refuse.
func (gc *groupCaller) holdFor() time.Duration {
	if gc.missed == 0 {
		return 0
	}
	return min(longestHold, firstHold<<min(gc.missed-1, 10))
}

// longest returns how long the members that refuse have the call wait.
func (call *groupCall) longest() time.Duration {
	wait := time.Duration(0)
	for _, v := range call.verdicts {
		if !v.ok {
			wait = max(wait, microseconds(max(1, v.wait)))
		}
	}
	return wait
}

// mark notes what a member has said to a call. Guarded by the mu of its queue.
func (gc *groupCaller) mark(i int, call *groupCall) {
	q, w, v, longest := gc.queues[i], gc.places[i], call.verdicts[i], call.longest()
	if v.limit > 0 {
		q.rate = v.limit
	}
	gc.known = call.start.Add(longest)
	wait := v.wait
	switch {
	case !v.ok && gc.last != nil && gc.last.verdicts[i].ok && w.in == nil:
		gc.missed++
	case v.ok && longest > gc.holdFor():
		if q.pass(w) {
			q.changed() // for those behind it
		}
		return
	case v.ok:
		wait = longest.Microseconds()
		gc.held = call.start.Add(longest)
	}
	if w.in == nil {
		q.hold(w)
	}
	if q.line.first == w {
		q.refuseExpired()
		if q.probe != probeNext {
			q.probe = probeUnderWay
		}
		q.dueAfter(wait, call.start)
	}
}

// refuseExpired answers those in line whose timeout has passed, behind a group's caller that
// was refused. One that a batch probes is the batch's to answer. Guarded by mu.
func (q *queue) refuseExpired() {
	q.line.all(func(w *waiter) {
		if w.standing == inLine && w.expired() {
			w.finish(verdict{}, nil)
			w.ready <- struct{}{}
		}
	})
}

// pass takes a place out of the line, and reports whether it was the first there. Guarded
// by mu.
func (q *queue) pass(w *waiter) (first bool) {
	first = w.in != nil && q.line.first == w
	w.remove()
	return first
}

// turn reports whether it is the caller's turn to ask: it is the first in each line that
// it stands in. A member that may have permits while it waits for its turn at another one
// is left to those behind it.
func (gc *groupCaller) turn() bool {
	turn := true
	for i, q := range gc.queues {
		q.mu.Lock()
		turn = turn && (gc.places[i].in == nil || q.line.first == gc.places[i])
		q.mu.Unlock()
	}
	for i, q := range gc.queues {
		q.mu.Lock()
		switch w := gc.places[i]; {
		case w.in == nil || q.line.first != w:
		case turn:
			q.probe = probeUnderWay // nothing has changed since
		case q.probe == probeNext && time.Now().After(gc.held) && q.pass(w):
			q.start()
		}
		q.mu.Unlock()
	}
	return turn
}

// leave gives the places back.
func (gc *groupCaller) leave() {
	gc.group.client.groupWaiting.Add(-1)
	for i, q := range gc.queues {
		q.mu.Lock()
		q.reserved--
		if q.pass(gc.places[i]) {
			q.changed()
		}
		q.start()
		q.mu.Unlock()
		q.retire()
	}
}

// waiting returns how many callers wait in the queue, without those of groups. Guarded by
// mu.
func (q *queue) waiting() int {
	n := q.arrivals.size
	q.line.all(func(w *waiter) {
		if !w.ofGroup() {
			n++
		}
	})
	return n
}
