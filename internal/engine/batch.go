package engine

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/turns"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

const (
	// maxRuns is how many runs a batch has. Each takes Redis 0.3 us. Any number
	// of equal requests is one run, so the bound is rarely met.
	maxRuns = 256

	// gatherRounds is how often a batch yields the processor while none of the callers it
	// has served returns.
	gatherRounds = 10

	// notUnderWay is the number of waiting callers of a batch that is not under way. 0
	// means that all callers have left.
	notUnderWay = -1
)

// A batch holds the callers that one script call judges. A queue reuses its batch for
// each call.
type batch struct {
	queue *queue

	// Guarded by the queue's mu.
	number       int64     // counts the batches of the queue
	waiters      []*waiter // the callers it judges, in the order of the request
	waiting      int       // callers that have not left; notUnderWay before and after
	includesLine bool      // it probes the line
	cancel       func()    // ends its call, unless go-redis is reading a reply
	began        time.Time
	leader       *waiter // the caller whose goroutine carries it out; nil for a worker

	request *request // the request that is under way

	// abandoned says that all callers have left and the queue has another batch.
	abandoned bool

	// Gathered from the waiters for the request.
	runs         []run
	permits      int64
	numbers      bool
	newlyWaiting int64 // permits of waiting callers that are not in line yet
	patient      bool  // all stand in line: they may leave permits to other processes
	givenRate    any   // the text of a GivenRate, nil if no caller has one

	served []*waiter // to be sent their results, without mu
}

// run makes batches while they are wanted. Each gets its own context, because the last
// caller to leave cancels it.
func (b *batch) run(closing context.Context) {
	for more := true; more; {
		ctx, cancel := context.WithCancel(closing)
		more = b.next(ctx, cancel)
		cancel()
		if more {
			b.gather()
		}
	}
}

// next makes a batch if one is wanted, and reports whether b goes on. If not, the queue
// has paused, and another goroutine may already use b.
func (b *batch) next(ctx context.Context, cancel func()) bool {
	q := b.queue
	q.mu.Lock()
	if q.engine.Closed() {
		q.close()
	}
	// Before take, so that arrivals behind the line are not served ahead of it.
	q.lineUp()
	req := b.take()
	if req == nil {
		idle := q.pause()
		q.mu.Unlock()
		if idle {
			q.engine.queues.retire(q)
		}
		return false
	}
	// caller and cancel are set under mu, because the callers may leave from now
	// on.
	b.cancel, b.leader = cancel, nil
	caller := ctx
	// Only a lone caller lends its values: with several callers, the request would appear
	// in a random one's trace.
	if len(b.waiters) == 1 {
		caller = b.waiters[0].ctx
	}
	q.mu.Unlock()
	return b.send(requestContext{ctx, caller, q}, req)
}

// A requestContext is the context of a request. The request of one caller has that
// caller's values, so that hooks of go-redis find the trace that the call belongs
// to. A shared batch belongs to no trace.
type requestContext struct {
	context.Context
	caller context.Context
	sender interface{ noteFailure(err error) }
}

// Value implements context.Context.
func (ctx requestContext) Value(key any) any {
	if key == (redisx.FailureKey{}) {
		return ctx.sender.noteFailure
	}
	if v := ctx.Context.Value(key); v != nil {
		return v
	}
	return ctx.caller.Value(key)
}

// gather lets the callers that were just served run before the next batch.
// Callers in a loop come again at once and then share it; without gather the
// first of them would get a batch to itself.
func (b *batch) gather() {
	for arrived, idle := 0, 0; idle < gatherRounds && arrived < len(b.served); idle++ {
		runtime.Gosched()
		b.queue.mu.Lock()
		if b.queue.arrivals.size > arrived {
			arrived, idle = b.queue.arrivals.size, 0
		}
		b.queue.mu.Unlock()
	}
}

// take makes the request of the next batch: the line, if it is to be probed, and
// the arrivals behind it. Batches of releases take turns with these. It returns
// nil if there is nothing to do. Guarded by mu.
func (b *batch) take() *request {
	q := b.queue
	acquires := q.wantsPermits()
	gives := !q.releases.empty() && !(acquires && q.releases.lastBatchReleased)
	now := time.Now()
	b.runs, b.permits, b.newlyWaiting = b.runs[:0], 0, 0
	b.numbers, b.includesLine, b.givenRate = false, false, nil
	b.patient = true
	switch {
	case gives:
		b.addAll(&q.releases.waiterList)
	case acquires:
		if b.includesLine = q.line.probes(); b.includesLine {
			b.addLine()
			q.line.schedule.NoteProbe()
		}
		b.addAll(&q.arrivals)
	case !q.unowned.ready():
		return nil
	}
	q.releases.lastBatchReleased = gives
	b.number++
	b.waiting, b.began = len(b.waiters), now
	if acquires && !gives {
		b.request = newAcquire(q.limiter, b.runs, q.unowned.withdrawal)
		if q.portion != nil && b.patient && q.limiter.Type() == wire.Overall {
			b.request.portion = q.portion.Text(b.newlyWaiting+q.line.permits, q.engine.config.GoOnly, now)
		}
	} else {
		b.request = newRelease(q.limiter, b.permits, q.unowned.withdrawal)
	}
	b.request.numbers, b.request.givenRate = b.numbers, b.givenRate
	return b.request
}

// addAll adds the waiters of a list until the batch is full. Guarded by mu.
func (b *batch) addAll(ls *waiterList) {
	for !ls.empty() && b.add(ls.first) {
	}
}

// addLine adds the line, from its head on, up to permits for the whole rate, because no
// more can be granted at once. Guarded by mu.
func (b *batch) addLine() {
	q := b.queue
	for w := q.line.first; w != nil && !w.ofGroup(); w = w.next {
		if q.lastReply.rate > 0 && b.permits > q.lastReply.rate || !b.add(w) {
			return
		}
	}
}

// add adds a waiter to the batch, and reports whether there was room. Guarded by
// mu.
func (b *batch) add(w *waiter) bool {
	one := int64(1)
	if w.Waits() {
		one = -1
	}
	last := len(b.runs) - 1
	joins := last >= 0 && b.runs[last].permits == w.Permits && (b.runs[last].many < 0) == w.Waits()
	switch {
	case b.permits > MaxPermits-w.Permits:
		return false
	case w.release: // releases are one sum
	case joins:
		b.runs[last].many += one
	case len(b.runs) == maxRuns:
		return false
	default:
		b.runs = append(b.runs, run{w.Permits, one})
	}
	w.noteTaken()
	if w.Waits() && w.state == judged {
		b.newlyWaiting += w.Permits
	}
	b.waiters = append(b.waiters, w)
	b.permits += w.Permits
	b.patient = b.patient && w.Waits()
	b.numbers = b.numbers || w.Numbers
	if w.givenRate != nil {
		b.givenRate = w.givenRate
	}
	return true
}

// send sends the request of the batch and delivers the results. It reports
// whether b goes on (next).
func (b *batch) send(ctx context.Context, req *request) bool {
	q := b.queue
	reply, err := req.send(ctx)
	if q.engine.config.Runner.KeepsDeadlines {
		q.limiter.noteReply(ctx, b.began, err)
	}
	q.mu.Lock()
	if b.abandoned {
		q.abandoned--
	}
	switch {
	case err != nil && q.engine.Closed():
		err = ErrClosed
	case b.abandoned:
	case err == nil || redisx.Final(err):
		q.lastReply.failure, q.lastReply.at = nil, time.Now() // Redis has replied
	case ctx.Err() == nil || !errors.Is(err, ctx.Err()): // a cancelled batch says nothing about Redis
		q.lastReply.failure = err
	}
	b.settle(req, reply, b.ended(ctx, err))
	q.start()
	goesOn, idle, done := !b.abandoned, false, b.served
	if b.abandoned {
		idle = q.idle()
	} else if len(done) <= 1 {
		if q.lineUp(); !q.wanted() {
			// Pause before the only caller gets its result, so that its next call
			// finds the queue idle and does not wait for the rest of this one.
			// done is copied, because another goroutine may use b once mu is
			// released.
			var copied [1]*waiter
			done = append(copied[:0], done...)
			goesOn, idle = false, q.pause()
		}
	}
	q.mu.Unlock()
	if idle {
		q.engine.queues.retire(q)
	}
	for _, w := range done { // without mu, which callers that come again need
		w.ready <- struct{}{}
	}
	return goesOn
}

// settle decides what becomes of each waiter. It counts a waiter before it
// dismisses it, because dismissing changes the state that says whether the caller
// has left. Guarded by mu.
func (b *batch) settle(req *request, reply acquireReply, err error) {
	q := b.queue
	b.served, b.waiting = b.served[:0], notUnderWay
	var outcome batchOutcome
	var s *split // nil if all get the same
	alike := err == nil && reply.judged == nil && !req.numbers
	if err == nil && !alike {
		s = newSplit(reply, req.runs)
	}
	size := len(b.waiters)
	for i, w := range b.waiters {
		v, e := Result{OK: alike}, err
		if s != nil {
			v, e = s.result(w.Permits)
		}
		if v.Batch = size; i == 0 {
			v.Drift, w.replaced = reply.drift, w.replaced || reply.replaced
		}
		outcome.add(w, v, e)
		b.dismiss(w, v, e, outcome.refused)
	}
	clear(b.waiters)
	b.waiters = b.waiters[:0]
	if b.abandoned {
		return // abandonBatch has recorded that its permits go back
	}
	if !req.isRelease() {
		b.regrant(&outcome)
	} else if err == nil {
		q.portion.NoteReleased(req.permits)
	}
	q.noteUnowned(req, err, outcome.toWaiters+outcome.atOnce, outcome.unclaimed)
	if err != nil && b.hung(err) {
		b.shareError(err, req.isRelease())
	}
	if !req.isRelease() {
		b.goOn(outcome, reply)
	}
}

// goOn records what the reply to an acquire says, and plans the next one. Guarded by mu.
func (b *batch) goOn(outcome batchOutcome, reply acquireReply) {
	q := b.queue
	if reply.rate > 0 {
		q.lastReply.rate = reply.rate
	}
	first := outcome.refused
	if first.waiter != nil && q.portion == nil {
		q.portion = &turns.Portion{}
	}
	if q.portion != nil {
		q.portion.NoteReply(outcome.toWaiters, outcome.atOnce, reply.java, b.began)
	}
	if first.waiter != nil {
		left := int64(0)
		if first.again {
			left = max(0, reply.left)
		}
		q.portion.NoteRefusal(wire.Milliseconds(reply.interval), wire.Microseconds(first.wait), left,
			reply.beside, b.began)
	}
	if !q.line.empty() {
		b.plan(first)
	}
}

// dismiss removes a waiter from the batch: with its result, or into the line. Guarded by
// mu.
func (b *batch) dismiss(w *waiter, v Result, err error, first refusal) {
	switch {
	case w.state == gone:
		w.remove()
	case err != nil || v.OK || !w.Waits() || w.isFinal(b.number) && first.covers(w):
		b.deliver(w, v, err)
	case w.state == probed:
		w.state = inLine
	default:
		b.queue.engine.upper.Waits(b.queue.limiter)
		b.queue.line.stand(w)
	}
}

// hung reports whether the batch failed because it hung. A batch that was
// cancelled, or ended at the deadline of its leader, did not: go-redis would have
// made further attempts.
func (b *batch) hung(err error) bool {
	ledTo := b.leader != nil && b.leader.canLeave
	return !ledTo && !redisx.Answered(err) && !errors.Is(err, context.Canceled) &&
		time.Since(b.began) > hangsAfter
}

// deliver gives a waiter its result. The waiter no longer belongs to the queue.
// Guarded by mu.
func (b *batch) deliver(w *waiter, v Result, err error) {
	w.finish(v, err)
	b.served = append(b.served, w)
}

// shareError gives the error of a batch that hung to the callers behind it that
// have no timeout, deadline or budget. Otherwise each of them would wait for all
// attempts of go-redis in turn. A release is carried out although an acquire hung: its permits
// would be missing. Guarded by mu.
func (b *batch) shareError(err error, released bool) {
	q := b.queue
	lists := []*waiterList{&q.line.waiterList, &q.arrivals}
	if released {
		lists = append(lists, &q.releases.waiterList)
	}
	for _, ls := range lists {
		ls.all(func(w *waiter) {
			if !w.bounded {
				b.deliver(w, Result{}, err)
			}
		})
	}
}

// regrant gives permits that were granted to callers that have left to the head
// of the line. Taking them back through Redis would cost a round trip, during which
// another process could take them. Guarded by mu.
func (b *batch) regrant(o *batchOutcome) {
	q := b.queue
	for w := q.line.first; w != nil && !w.ofGroup() && w.Permits <= o.unclaimed; w = q.line.first {
		o.unclaimed -= w.Permits
		o.toWaiters += w.Permits
		b.deliver(w, Result{OK: true}, nil)
		q.line.schedule.NoteChange()
	}
}
