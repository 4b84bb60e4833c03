package queue

import (
	"errors"
	"time"

	"github.com/redisson-go/rratelimiter/internal/back"
	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/request"
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
// Each caller leaves when its own timer or context ends (caller.go), whatever its batch
// does.
type queue struct {
	registry *Registry
	stripe   *stripe

	// Guarded by the mu of the stripe, as all below.
	target    *request.Target // that of the first caller; nil while the queue is unused
	retires   bool            // a timer will retire it, unless a caller comes
	busy      bool            // a batch is under way
	batch     *batch          // the one under way, or the last one
	abandoned int             // hanging batches that all their callers have left
	arrivals  waiterList      // no batch has taken them yet
	releases  releaseList
	line      line // refused, waiting
	unowned   unowned
	lastReply lastReply
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

// arrive adds a new caller to the queue and starts a batch if one is wanted. It reports whether the caller is
// to carry out its own request (batch.lead). Guarded by mu.
func (q *queue) arrive(w *waiter) (leads bool) {
	came := &q.arrivals
	if w.state = arrived; w.Release {
		came = &q.releases.waiterList
	}
	came.insert(w, came.last)
	if q.registry.Pool.Closed() {
		q.close()
		return false
	}
	if !q.busy && q.line.size > 0 {
		q.lineUp()
	}
	if leads = w.staysForReply && q.isAlone(w); leads {
		q.busy = true
		q.batch.take()
	}
	q.start()
	return leads
}

// isAlone reports whether the next batch starts at once and has only w. Guarded by mu.
func (q *queue) isAlone(w *waiter) bool {
	return !q.busy && w.state == arrived && w.list.size == 1 && !q.line.probes() &&
		(q.arrivals.size == 0 || q.releases.size == 0)
}

// lineUp puts the waiting arrivals behind the line, if it has waiters: these would be served
// first. arrive calls it for a caller that arrives while no batch is
// under way. Callers that arrive during a batch, which may serve the line or be refused,
// are lined up before the next one.
//
// An arrival that wants more than the known rate makes the batch ask for all
// ahead of it as well, because the rate may have changed. Guarded by mu.
func (q *queue) lineUp() {
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
func (q *queue) wanted() bool {
	return q.arrivals.size > 0 || q.releases.size > 0 || q.line.probes() ||
		q.unowned.withdrawal != nil && !q.unowned.waitsForRedis
}

// start begins a batch if one is wanted and the one under way, if any, is hanging
// without callers. It also starts the goroutine that probes the line. Guarded by
// mu.
func (q *queue) start() {
	if q.busy && q.batch.waiting == 0 && q.abandoned < maxAbandoned &&
		time.Since(q.batch.began) > HangsAfter {
		q.abandonBatch()
	}
	if !q.busy && q.wanted() {
		q.busy = q.registry.Pool.Work(q.batch.run)
		if !q.busy {
			q.close()
		}
	}
	if q.line.size > 0 && !q.line.attended {
		if q.line.attended = q.registry.Pool.Go(q.attend); !q.line.attended {
			q.close()
		}
	}
	if q.line.attended {
		q.line.notify()
	}
}

// restart checks whether the batch under way hangs.
func (q *queue) restart() {
	q.lock()
	defer q.unlock()
	q.start()
}

// abandonBatch abandons a hanging batch that all its callers have left, because the next
// one may get a better connection. Permits that Redis grants to the abandoned request
// later go back (unowned.note). Guarded by mu.
func (q *queue) abandonBatch() {
	for _, w := range q.batch.waiters {
		w.remove()
	}
	if q.batch.includesLine {
		q.line.schedule.NoteChange()
	}
	q.abandoned++
	q.batch.abandoned = true
	q.unowned.note(q.batch.request)
	// The abandoned batch still uses its own fields when its reply comes, so the
	// queue needs another one.
	q.batch = &batch{queue: q, number: q.batch.number, waiting: notUnderWay}
	q.busy = false
	if q.line.size > 0 {
		q.lineUp()
	}
}

// close answers all callers with ErrClosed. Permits that a batch under way is
// still granted come back after an interval. Guarded by mu.
func (q *queue) close() {
	q.unowned = unowned{}
	for _, ls := range []*waiterList{&q.arrivals, &q.releases.waiterList, &q.line.waiterList} {
		ls.all((*waiter).failClosed)
	}
	for _, w := range q.batch.waiters {
		w.failClosed()
	}
}

// NoteFailure records the error of an attempt that go-redis or the Runner
// repeats, for callers that leave before the next one.
func (q *queue) NoteFailure(err error) {
	q.lock()
	defer q.unlock()
	q.lastReply.failure = err
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

// unowned are permits that Redis may have granted to callers that have left. They
// are to be taken back. Guarded by the queue's mu.
type unowned struct {
	withdrawal    *request.Withdrawal // nil if there is none
	waitsForRedis bool                // the withdrawal is in Config.Back, until Redis is well
}

// note records that the grants of a request are unknown. An earlier
// withdrawal stays as it is: it covers all requests after its number, and so this
// one.
func (u *unowned) note(req *request.Request) {
	if u.withdrawal == nil && !req.Releases {
		u.withdrawal = req.All()
	}
}

// noteUnowned records the permits to be taken back after a request: those beyond
// the kept ones, or all of them if the outcome is unknown. Guarded by mu.
func (q *queue) noteUnowned(req *request.Request, err error, kept, unclaimed int64) {
	u := &q.unowned
	settled := err == nil || errors.Is(err, failure.ErrNotInitialized)
	late := u.withdrawal.MayCome(err)
	switch {
	case late:
	case settled:
		u.withdrawal = nil
	case req.Ambiguous():
		u.note(req)
	}
	if err == nil && unclaimed > 0 && !req.Releases {
		u.withdrawal = req.Beyond(kept)
	}
	if req.Withdraws() {
		q.registry.Back.Note(settled)
	}
	if late || !settled {
		q.withdrawLater(late)
	}
}

// withdrawLater schedules another attempt to take permits back: Redis failed, or the request
// that takes them is late. Guarded by mu.
func (q *queue) withdrawLater(late bool) {
	u := &q.unowned
	switch w := u.withdrawal; {
	case w == nil || u.waitsForRedis:
	case late:
		u.waitsForRedis = true
		back.Later(q, w.Since)
	default:
		u.waitsForRedis = q.registry.Back.Add(q)
		if !u.waitsForRedis || time.Since(w.Since) > back.GiveUpAfter {
			u.withdrawal = nil
		}
	}
}

// TakeBack takes back unowned permits, and reports whether any were left: a caller's
// request may already have taken them back.
func (q *queue) TakeBack() bool {
	q.lock()
	defer q.unlock()
	q.unowned.waitsForRedis = false
	q.start()
	return q.unowned.withdrawal != nil
}
