package engine

import (
	"errors"
	"sync"
	"time"
)

// maxDeserted is how many batches of a limiter may hang, each on a connection
// of its own, with one more under way: a pool of go-redis has ten connections
// for each processor, and other limiters need some.
const maxAbandoned = 3

// A queue is where the callers of one limiter meet, those of all Limiters
// of its name. It is there while somebody calls; a limiter that nobody uses has none.
//
// One batch is under way at a time. A second one at once was measured to gain
// next to nothing, and would have to be kept in order with the first; but one
// that hangs, and which nobody waits for any more, is left alone. A caller that
// finds the queue idle starts a batch. Callers that arrive during a batch
// share the next one (batch.go). A caller that is refused and has time stands
// in line (line.go). The line is probed, from its head on, when the permits
// of its head are due or something has changed (wake.go), and nobody in it is
// served before those ahead of it. A caller without a timeout takes what is
// there, also when others wait.
//
// Whatever a batch does, callers get their results in time: each has a timer and
// a context of its own, and leaves when they end (leave.go).
type queue struct {
	engine *Engine

	mu              sync.Mutex
	limiter         *Limiter   // as the first caller knows it
	inUse           bool       // it is in engine.queues; also guarded by the mu of these
	retireScheduled bool       // a timer retires it, when nobody has come again
	busy            bool       // a batch is under way
	batch           *batch     // the one under way, or the one before
	abandoned       int        // batches that hang and nobody waits for any more, besides batch
	arrivals        waiterList // no batch has taken them yet
	releases        releaseList
	line            line // refused, waiting
	unowned         unowned
	lastReply       lastReply
	turns           turns   // who goes first when permits are due: Go or Java
	portion         portion // of the limit, beside other processes of Go
}

// returns are releases that no batch has taken yet.
type releaseList struct {
	waiterList
	lastBatchReleased bool // the last batch was one of these
}

// A lastReply is what Redis said last of a limiter.
type lastReply struct {
	rate    int64     // as the last reply had it that told it; 0 not known
	at      time.Time // when Redis last replied to a batch
	failure error     // what Redis or the network said last, if it was no reply
}

// arrive adds a new caller to the queue, which queues.enter has locked, and starts a batch if
// one is wanted. It unlocks the queue.
func (q *queue) arrive(w *waiter) {
	w.state = arrived
	if w.release {
		q.releases.push(w)
	} else {
		q.arrivals.push(w)
	}
	if !q.busy {
		q.lineUp()
	}
	closed := q.engine.closed()
	if closed {
		q.close()
	} else {
		q.start()
	}
	q.mu.Unlock()
	if closed {
		q.engine.queues.retire(q)
	}
}

// lineUp decides where the arrivals stand: those that wait stand behind those in line, who would
// be served before them. It is called when a caller arrives. For callers that arrive during a
// batch, which may serve the line or be refused, it is called before the next one.
//
// If an arrival wants more than the rate that was met last, Redis must be asked, with all
// ahead of it: there may be another rate. Guarded by mu.
func (q *queue) lineUp() {
	if q.line.empty() && !q.line.yieldsToJava {
		return
	}
	q.arrivals.all(func(w *waiter) {
		if !w.Waits() {
			return
		}
		ofGroup := q.line.first.ofGroup()
		if ofGroup && q.lastReply.rate > 0 && w.Permits > q.lastReply.rate {
			return // a batch says whether there is another rate
		}
		q.line.stand(w)
		if w.Permits > q.lastReply.rate && !ofGroup {
			q.lastReply.rate = 0
			q.line.scheduleProbe()
		}
		if w.expired() {
			q.line.probe = probeNext
		}
	})
}

// wanted reports whether there is anything for a batch to do. Guarded by mu.
func (q *queue) wanted() bool { return q.wantsPermits() || !q.releases.empty() || q.unowned.ready() }

// acquires reports whether the next batch would ask for permits. Guarded by mu.
func (q *queue) wantsPermits() bool { return !q.arrivals.empty() || q.line.probes() }

// idle reports whether nobody needs the queue. Guarded by mu.
func (q *queue) idle() bool {
	return !q.busy && !q.line.attended && q.abandoned == 0 && q.unowned.withdrawal == nil &&
		!q.unowned.waitingForRedis && q.line.groupPlaces == 0 &&
		q.arrivals.empty() && q.releases.empty() && q.line.empty()
}

// start begins a batch if one is wanted and none is under way that anybody waits
// for, and sees to it that the line is probed later. Guarded by mu.
func (q *queue) start() {
	if q.busy && q.batch.waiting == 0 && q.abandoned < maxAbandoned && time.Since(q.batch.began) > hangsAfter {
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
	q.line.notify()
}

// pause ends a series of batches, and reports whether the queue is idle then.
// Guarded by mu.
func (q *queue) pause() (idle bool) {
	q.busy = false
	q.start()
	return q.idle()
}

// restart looks whether the batch under way hangs.
func (q *queue) restart() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.start()
}

// desert leaves the batch under way alone, which hangs and nobody waits for any
// more: the next one may have a better connection. Guarded by mu.
func (q *queue) abandonBatch() {
	for _, w := range q.batch.waiters {
		w.remove()
	}
	if q.batch.includesLine {
		q.line.scheduleProbe()
	}
	q.abandoned++
	q.batch.abandoned = true
	q.unowned.noteAmbiguous(q.batch.request)
	q.batch = &batch{queue: q, number: q.batch.number, waiting: notUnderWay}
	q.busy = false
	q.lineUp()
}

// close tells everybody that the Engine is closed. What a batch that is under
// way may still be granted comes back by itself. Guarded by mu.
func (q *queue) close() {
	q.unowned.withdrawal = nil
	for _, ls := range []*waiterList{&q.arrivals, &q.releases.waiterList, &q.line.waiterList} {
		ls.all((*waiter).failClosed)
	}
	for _, w := range q.batch.waiters {
		w.failClosed()
	}
}

// failed keeps what Redis or the network said to an attempt, for those who
// leave before the next one.
func (q *queue) noteFailure(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lastReply.failure = err
}

// lined reports whether the line has waiters.
func (q *queue) hasLine() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.line.empty()
}

// waiting returns how many callers wait, without those of groups. Guarded by mu.
func (q *queue) waiting() int {
	n := q.arrivals.size
	q.line.all(func(w *waiter) {
		if !w.ofGroup() {
			n++
		}
	})
	return n
}

// account notes what is to be taken back after a request: what it was granted beyond
// the permits that are kept, or all of it if its outcome is unknown. Guarded by mu.
func (q *queue) noteUnowned(req *request, err error, kept, unclaimed int64) {
	settled := err == nil || errors.Is(err, ErrNotInitialized)
	if settled {
		q.unowned.withdrawal = nil
	} else if req.ambiguous {
		q.unowned.noteAmbiguous(req)
	}
	if err == nil && unclaimed > 0 && !req.isRelease() {
		q.unowned.withdrawal = &withdrawal{req.number, kept, time.Now()}
	}
	if req.withdrawal != nil || req.isRelease() && req.permits == 0 {
		q.engine.withdrawals.noteOutcome(settled)
	}
	if w := q.unowned.withdrawal; !settled && w != nil && !q.unowned.waitingForRedis {
		q.unowned.waitingForRedis = q.engine.withdrawals.add(q)
		if !q.unowned.waitingForRedis || time.Since(w.since) > withdrawFor {
			q.unowned.withdrawal = nil
		}
	}
}

// withdraw takes back what nobody holds, and reports whether there was any left: the
// request of a caller may have done it meanwhile.
func (q *queue) withdraw() bool {
	q.mu.Lock()
	q.unowned.waitingForRedis = false
	withdraws := q.unowned.withdrawal != nil
	q.start()
	q.mu.Unlock()
	q.engine.queues.retire(q)
	return withdraws
}

// inherit takes over the withdrawal of a limiter's old name. It unlocks the queue, which
// queues.enter has locked.
func (q *queue) inherit(w *withdrawal) {
	if q.unowned.withdrawal == nil {
		q.unowned.withdrawal = w
	}
	q.start()
	q.mu.Unlock()
	q.engine.queues.retire(q)
}
