package engine

import (
	"errors"
	"sync"
	"time"

	"github.com/redisson-go/rratelimiter/internal/back"
	"github.com/redisson-go/rratelimiter/internal/turns"
)

// maxAbandoned is how many hanging batches of a limiter are left alone. Each
// blocks a connection, and one more batch is under way. A pool of go-redis has
// ten connections for each processor, and other limiters need some of them.
const maxAbandoned = 3

// A queue serves the callers of one limiter, whichever Limiter of its name they use. It
// exists while it has callers; an unused limiter has none.
//
// One batch is under way at a time. A second batch gained next to nothing in
// measurements, and the two would have to be kept in order. Only a hanging batch that all
// its callers have left is abandoned: the queue then starts the next one beside it.
//
// A caller that finds the queue idle starts a batch. Callers that arrive during a
// batch share the next one (batch.go). A refused caller that has time left stands
// in line (line.go). A batch probes the line, from its head on, when the permits
// of the head are due or something has changed (wake.go). No waiter is served
// before those ahead of it: otherwise a stream of small requests would starve a
// large one. A caller without a timeout does not wait, so it takes what is there
// even if there is a line.
//
// Each caller leaves when its own timer or context ends (leave.go), whatever its batch
// does.
type queue struct {
	engine *Engine

	mu              sync.Mutex
	limiter         *Limiter   // the Limiter of the first caller
	inUse           bool       // it is in engine.queues; also guarded by the mu of these
	retireScheduled bool       // a timer will retire it, unless a caller comes
	busy            bool       // a batch is under way
	batch           *batch     // the one under way, or the last one
	abandoned       int        // hanging batches that all their callers have left
	arrivals        waiterList // no batch has taken them yet
	releases        releaseList
	line            line // refused, waiting
	unowned         unowned
	lastReply       lastReply
	portion         *turns.Portion // the share of this process among others; nil until a waiter is refused
}

// A releaseList holds calls of Release that no batch has taken yet.
type releaseList struct {
	waiterList
	// lastBatchReleased says that the last batch gave permits back. Batches of
	// acquires and releases alternate, so that neither kind starves the other.
	lastBatchReleased bool
}

// A lastReply holds the numbers of the last reply of Redis about a limiter.
type lastReply struct {
	rate    int64     // from the last reply that had it; 0 if unknown
	at      time.Time // when Redis last replied to a batch
	failure error     // the last failure; nil after a reply
}

// arrive adds a new caller to the queue and starts a batch if one is wanted. If
// the caller is to carry out its own request, arrive returns that (batch.lead).
// queues.enter has locked the queue; arrive unlocks it.
func (q *queue) arrive(w *waiter) *request {
	w.state = arrived
	if w.release {
		q.releases.push(w)
	} else {
		q.arrivals.push(w)
	}
	if !q.busy {
		q.lineUp()
	}
	var toLead *request
	closed := q.engine.Closed()
	if closed {
		q.close()
	} else {
		if w.staysForReply && q.isAlone(w) {
			q.busy = true
			toLead = q.batch.take()
		}
		q.start()
	}
	q.mu.Unlock()
	if closed {
		q.engine.queues.retire(q)
	}
	return toLead
}

// isAlone reports whether the next batch starts at once and has only w. Guarded by mu.
func (q *queue) isAlone(w *waiter) bool {
	return !q.busy && w.state == arrived && w.list.size == 1 && !q.line.probes() &&
		(q.arrivals.empty() || q.releases.empty())
}

// lineUp puts the waiting arrivals behind the line, if there is one: the waiters in line
// would be served first. arrive calls it for a caller that arrives while no batch is
// under way. Callers that arrive during a batch, which may serve the line or be refused,
// are lined up before the next one.
//
// An arrival that wants more than the known rate makes the batch ask for all
// ahead of it as well, because the rate may have changed. Guarded by mu.
func (q *queue) lineUp() {
	if q.line.empty() {
		return
	}
	q.arrivals.all(func(w *waiter) {
		if !w.Waits() {
			return
		}
		ofGroup := q.line.first.ofGroup()
		if ofGroup && q.lastReply.rate > 0 && w.Permits > q.lastReply.rate {
			return // a batch finds out whether the rate has changed
		}
		q.line.stand(w)
		if w.Permits > q.lastReply.rate && !ofGroup {
			q.lastReply.rate = 0
			q.line.schedule.NoteChange()
		}
		if w.expired() {
			q.line.schedule.NoteExpiry()
		}
	})
}

// wanted reports whether there is work for a batch. Guarded by mu.
func (q *queue) wanted() bool { return q.wantsPermits() || !q.releases.empty() || q.unowned.ready() }

// wantsPermits reports whether the next batch would ask for permits. Guarded by
// mu.
func (q *queue) wantsPermits() bool { return !q.arrivals.empty() || q.line.probes() }

// idle reports whether the queue may be retired. A reserved place in line, an
// abandoned batch and a withdrawal all keep it: each still has a pointer to it.
// Guarded by mu.
func (q *queue) idle() bool {
	return !q.busy && !q.line.attended && q.abandoned == 0 && q.unowned.withdrawal == nil &&
		!q.unowned.waitingForRedis && q.line.groupPlaces == 0 &&
		q.arrivals.empty() && q.releases.empty() && q.line.empty()
}

// start begins a batch if one is wanted and the one under way, if any, is hanging
// without callers. It also starts the goroutine that probes the line. Guarded by
// mu.
func (q *queue) start() {
	if q.busy && q.batch.waiting == 0 && q.abandoned < maxAbandoned &&
		time.Since(q.batch.began) > hangsAfter {
		q.abandonBatch()
	}
	if !q.busy && q.wanted() {
		q.busy = q.engine.Work(q.batch.run)
		if !q.busy {
			q.close()
		}
	}
	if !q.line.empty() && !q.line.attended {
		if q.line.attended = q.engine.Go(q.attend); !q.line.attended {
			q.close()
		}
	}
	if q.line.attended {
		q.line.notify()
	}
}

// pause ends a series of batches, and reports whether the queue is idle after
// that. It calls start, because callers may have arrived since the batch looked
// for them. Guarded by mu.
func (q *queue) pause() (idle bool) {
	q.busy = false
	q.start()
	return q.idle()
}

// restart checks whether the batch under way hangs.
func (q *queue) restart() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.start()
}

// abandonBatch abandons a hanging batch that all its callers have left, because the next
// one may get a better connection. Permits that Redis grants to the abandoned request
// later go back (noteAmbiguous). Guarded by mu.
func (q *queue) abandonBatch() {
	for _, w := range q.batch.waiters {
		w.remove()
	}
	if q.batch.includesLine {
		q.line.schedule.NoteChange()
	}
	q.abandoned++
	q.batch.abandoned = true
	q.unowned.noteAmbiguous(q.batch.request)
	// The abandoned batch still uses its own fields when its reply comes, so the
	// queue needs another one.
	q.batch = &batch{queue: q, number: q.batch.number, waiting: notUnderWay}
	q.busy = false
	q.lineUp()
}

// close answers all callers with ErrClosed. Permits that a batch under way is
// still granted come back after an interval. Guarded by mu.
func (q *queue) close() {
	q.unowned.withdrawal = nil
	for _, ls := range []*waiterList{&q.arrivals, &q.releases.waiterList, &q.line.waiterList} {
		ls.all((*waiter).failClosed)
	}
	for _, w := range q.batch.waiters {
		w.failClosed()
	}
}

// noteFailure records the error of an attempt that go-redis or the Runner
// repeats, for callers that leave before the next one.
func (q *queue) noteFailure(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lastReply.failure = err
}

// hasLine reports whether the line has waiters.
func (q *queue) hasLine() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.line.empty()
}

// waiting returns the number of waiting callers. Groups count their own, because
// one of their callers may stand in several lines. Guarded by mu.
func (q *queue) waiting() int {
	n := q.arrivals.size
	q.line.all(func(w *waiter) {
		if !w.ofGroup() {
			n++
		}
	})
	return n
}

// noteUnowned records the permits to be taken back after a request: those beyond
// the kept ones, or all of them if the outcome is unknown. Guarded by mu.
func (q *queue) noteUnowned(req *request, err error, kept, unclaimed int64) {
	settled := err == nil || errors.Is(err, ErrNotInitialized)
	late := q.unowned.withdrawal != nil && q.unowned.withdrawal.mayCome(err)
	switch {
	case late:
	case settled:
		q.unowned.withdrawal = nil
	case req.ambiguous:
		q.unowned.noteAmbiguous(req)
	}
	if err == nil && unclaimed > 0 && !req.isRelease() {
		q.unowned.withdrawal = &withdrawal{after: req.number, kept: kept, since: time.Now()}
	}
	if req.withdrawal != nil || req.isRelease() && req.permits == 0 {
		q.engine.back.Note(settled)
	}
	if late || !settled {
		q.withdrawLater(late)
	}
}

// withdrawLater schedules another attempt to take permits back: Redis failed, or the request
// that takes them is late. Guarded by mu.
func (q *queue) withdrawLater(late bool) {
	w := q.unowned.withdrawal
	switch {
	case w == nil || q.unowned.waitingForRedis:
	case late:
		q.unowned.waitingForRedis = true
		w.again(q)
	default:
		q.unowned.waitingForRedis = q.engine.back.Add(q)
		if !q.unowned.waitingForRedis || time.Since(w.since) > back.GiveUpAfter {
			q.unowned.withdrawal = nil
		}
	}
}

// TakeBack takes back unowned permits, and reports whether any were left: a caller's
// request may already have taken them back.
func (q *queue) TakeBack() bool {
	q.mu.Lock()
	q.unowned.waitingForRedis = false
	withdraws := q.unowned.withdrawal != nil
	q.start()
	q.mu.Unlock()
	q.engine.queues.retire(q)
	return withdraws
}

// inherit takes over the withdrawal of a limiter's old name. queues.enter has
// locked the queue; inherit unlocks it.
func (q *queue) inherit(w *withdrawal) {
	if q.unowned.withdrawal == nil {
		q.unowned.withdrawal = w
	}
	q.start()
	q.mu.Unlock()
	q.engine.queues.retire(q)
}
