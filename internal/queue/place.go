package queue

import (
	"time"

	"github.com/redisson-go/rratelimiter/internal/request"
)

// A place is where a Group's caller stands in the line of one member. It counts
// as reserved even while it is not in the line, so that its queue is not retired.
type place struct {
	queue  *queue
	waiter *waiter
}

// reserve returns a place at the end of the line, without the caller standing
// there yet. Guarded by mu, as are stand, inLine, isFirst, stepAside and
// noteRefusal.
func (q *queue) reserve(permits int64, t *ticket) place {
	q.line.places++
	q.line.lastRank++
	return place{q, &waiter{
		Want: Want{Permits: permits, Timeout: Forever}, caller: caller{bounded: true},
		links: links{rank: q.line.lastRank}, ticket: t,
	}}
}

func (p place) inLine() bool  { return p.waiter.list != nil }
func (p place) isFirst() bool { return p.queue.line.first == p.waiter }

// stand puts the caller where its rank belongs, ahead of all waiters that came later,
// unless it is in line. It searches from the end, because a place mostly returns soon.
func (p place) stand() {
	if p.inLine() {
		return
	}
	behind := p.queue.line.last
	for behind != nil && behind.rank > p.waiter.rank {
		behind = behind.prev
	}
	p.waiter.state = inLine
	p.queue.line.insert(p.waiter, behind)
}

// stepAside takes the caller out of the line. The waiters behind it may be served
// at once.
func (p place) stepAside() {
	first := p.isFirst()
	p.waiter.remove()
	if first {
		p.queue.line.schedule.NoteChange()
	}
}

// noteRefusal records that the member has refused the caller for us microseconds
// from sent on. The refusal also holds for the expired waiters behind the caller.
// A waiter in a batch is left to the batch, which would answer it a second time.
func (p place) noteRefusal(us int64, sent time.Time) {
	if !p.isFirst() {
		return
	}
	line := &p.queue.line
	line.all(func(w *waiter) {
		if w.state == inLine && w.expired() {
			w.finish(request.Result{}, nil)
			w.ready <- struct{}{}
		}
	})
	line.schedule.NoteRefusal(us, sent, time.Now())
	if line.expired > 0 {
		line.schedule.NoteExpiry()
	}
}

// hasTurn reports whether no waiter in the line is ahead of the caller.
func (p place) hasTurn() bool {
	p.queue.lock()
	defer p.queue.unlock()
	return !p.inLine() || p.isFirst()
}

// noteProbe records that the caller asks Redis now.
func (p place) noteProbe() {
	p.queue.lock()
	defer p.queue.unlock()
	if p.isFirst() {
		p.queue.line.schedule.NoteProbe()
	}
}

// leavePermits leaves permits that may have returned to the waiters behind.
func (p place) leavePermits() {
	p.queue.lock()
	defer p.queue.unlock()
	if p.isFirst() && p.queue.line.schedule.IsNext() {
		p.stepAside()
		p.queue.start()
	}
}

// giveBack ends the reservation.
func (p place) giveBack() {
	q := p.queue
	q.lock()
	q.line.places--
	p.stepAside()
	q.start()
	q.unlock()
}
