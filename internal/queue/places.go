package queue

import (
	"time"

	"github.com/redisson-go/rratelimiter/internal/request"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// Places are where the caller of a Group stands: in the lines of all its members.
type Places struct {
	registry *Registry
	places   []place // by member

	// Wake has a value when the caller's turn may have come.
	Wake chan struct{}

	// RefusedUntil is the time until which Redis can grant nothing, by its last reply.
	RefusedUntil time.Time

	last        []request.Result // of the last reply, by member; nil if there was none
	missedTurns int              // refusals by members in whose lines it had been overtaken
	blocksUntil time.Time        // it blocks the lines of granting members until then
}

// Stand takes a place in the line of each member. results are those of the request, sent at a time, which has
// refused; nil if the caller has not asked because there is a line.
func (r *Registry) Stand(
	targets []*request.Target, permits []int64, results []request.Result, sent time.Time,
) *Places {
	p := &Places{registry: r, Wake: make(chan struct{}, 1)}
	for _, t := range targets {
		r.Waits(t.Hash)
	}
	queues, unlock := r.lockAll(targets)
	defer unlock()
	for i, q := range queues {
		p.places = append(p.places, q.reserve(permits[i], &ticket{p.Wake}))
	}
	for i, place := range p.places {
		if results != nil {
			p.noteReply(i, results, sent)
		} else if place.queue.line.size > 0 {
			place.stand()
		}
	}
	// Set after noteReply, which compares the new reply with the last one.
	p.last = results
	for _, q := range queues {
		q.start()
	}
	return p
}

// NoteRefusal records a refusal in all lines.
func (p *Places) NoteRefusal(results []request.Result, sent time.Time) {
	for i, place := range p.places {
		place.queue.lock()
		p.noteReply(i, results, sent)
		place.queue.start()
		place.queue.unlock()
	}
	p.last = results
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
func (p *Places) blockFor() time.Duration {
	if p.missedTurns == 0 {
		return 0
	}
	return min(longestBlock, firstBlock<<min(p.missedTurns-1, 10))
}

// longestWait returns the longest wait that the refusing members name.
func longestWait(results []request.Result) time.Duration {
	wait := time.Duration(0)
	for _, v := range results {
		if !v.OK {
			wait = max(wait, wire.Microseconds(max(1, v.Wait)))
		}
	}
	return wait
}

// noteReply records the reply of a member. Guarded by the mu of its queue.
func (p *Places) noteReply(i int, results []request.Result, sent time.Time) {
	place, v, longest := p.places[i], results[i], longestWait(results)
	if v.Limit > 0 {
		place.queue.lastReply.rate = v.Limit
	}
	p.RefusedUntil = sent.Add(longest)
	wait := v.Wait
	switch {
	case !v.OK && p.last != nil && p.last[i].OK && !place.inLine():
		p.missedTurns++
	case v.OK && longest > p.blockFor():
		place.stepAside()
		return
	case v.OK:
		wait = longest.Microseconds()
		p.blocksUntil = sent.Add(longest)
	}
	place.stand()
	place.noteRefusal(wait, sent)
}

// ClaimTurn reports whether it is the caller's turn to ask: it is first in each
// line that it stands in. If it is not, a member whose permits may be there is
// left to the waiters behind, because the caller cannot use them yet.
//
// The lines are locked one by one. If another place returns ahead of this one
// meanwhile, the call overtakes it, once. Locking all of them for each look would
// make the queues of all members wait for each other.
func (p *Places) ClaimTurn() bool {
	turn := true
	for _, place := range p.places {
		turn = place.hasTurn() && turn
	}
	for _, place := range p.places {
		if turn {
			place.noteProbe()
		} else if time.Now().After(p.blocksUntil) {
			place.leavePermits()
		}
	}
	return turn
}

// Leave gives the places back. A place at the head blocks the line until then.
func (p *Places) Leave() {
	for _, place := range p.places {
		place.giveBack()
	}
}
