package queue

import (
	"context"
	"errors"
	"time"

	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/request"
	"github.com/redisson-go/rratelimiter/internal/turns"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// send sends the request of the batch and delivers the results. It reports
// whether b goes on (next).
func (b *batch) send(ctx context.Context) bool {
	q, req := b.queue, b.request
	reply, err := req.Send(ctx)
	if q.registry.Runner.KeepsDeadlines {
		q.registry.noteReply(ctx, q.target, b.began, err)
	}
	q.lock()
	if b.abandoned {
		q.abandoned--
	}
	if err == nil {
		q.lastReply.failure, q.lastReply.at = nil, time.Now()
	} else {
		err = b.failed(ctx, err)
	}
	b.settle(req, reply, err)
	q.start()
	goesOn, done := !b.abandoned, b.served
	if goesOn && len(done) <= 1 {
		if q.line.size > 0 {
			q.lineUp()
		}
		if !q.wanted() {
			// The series ends before the only caller gets its result, so that its next call
			// finds the queue idle and does not wait for the rest of this one.
			// done is copied, because another goroutine may use b once mu is
			// released.
			var copied [1]*waiter
			done = append(copied[:0], done...)
			goesOn, q.busy = false, false
			q.start()
		}
	}
	q.unlock()
	for _, w := range done { // without mu, which callers that come again need
		w.ready <- struct{}{}
	}
	return goesOn
}

// failed records the error of the request, and returns the error for its callers. Guarded by mu.
func (b *batch) failed(ctx context.Context, err error) error {
	q := b.queue
	if q.registry.Pool.Closed() {
		err = failure.ErrClosed
	}
	switch {
	case b.abandoned || err == failure.ErrClosed:
	case redisx.Final(err):
		q.lastReply.failure, q.lastReply.at = nil, time.Now() // Redis has replied
	case ctx.Err() == nil || !errors.Is(err, ctx.Err()):
		q.lastReply.failure = err // a cancelled batch says nothing about Redis
	}
	if b.leader == nil {
		return err
	}
	return b.ended(ctx, err)
}

// settle decides what becomes of each waiter. It counts a waiter before it
// dismisses it, because dismissing changes the state that says whether the caller
// has left. Guarded by mu.
func (b *batch) settle(req *request.Request, reply request.Reply, err error) {
	b.served, b.waiting = b.served[:0], notUnderWay
	var outcome outcome
	var split request.Split
	alike := err != nil || req.Alike(reply)
	if !alike {
		split = req.Split(reply)
	}
	size := len(b.waiters)
	for i, w := range b.waiters {
		v, e := request.Result{OK: err == nil}, err
		if !alike {
			v, e = split.Result(w.Permits)
		}
		if v.Batch = size; i == 0 {
			v.Drift, w.replaced = reply.Drift, w.replaced || reply.Replaced
		}
		outcome.add(w, v, e)
		b.dismiss(w, v, e, outcome.refused)
	}
	clear(b.waiters)
	b.waiters = b.waiters[:0]
	if b.abandoned {
		return // abandonBatch has recorded that its permits go back
	}
	b.goOn(outcome, req, reply, err)
}

// An outcome counts the results of the waiters of a batch.
type outcome struct {
	toWaiters int64 // permits granted to waiting callers
	atOnce    int64 // permits granted to callers that do not wait
	unclaimed int64 // permits granted to callers that have left
	refused   refusal
}

// add counts the result of a waiter.
func (o *outcome) add(w *waiter, v request.Result, err error) {
	left := w.state == gone
	switch {
	case v.OK && left:
		o.unclaimed += w.Permits
	case v.OK && w.Waits():
		o.toWaiters += w.Permits
	case v.OK:
		o.atOnce += w.Permits
	case w.Waits() && err == nil && o.refused.waiter == nil:
		o.refused = refusal{w, left, v.Wait, v.Again}
	}
}

// A refusal is the first refused waiter of a batch. No waiter behind it is
// served.
type refusal struct {
	*waiter
	callerLeft bool  // its caller has left meanwhile
	wait       int64 // us until its permits are there
	again      bool  // or until it may look again
}

// covers reports whether the refusal holds for another waiter in line as well. It
// does, unless the refused caller has left and this one wants less.
func (first refusal) covers(w *waiter) bool {
	return first.waiter != nil && (!first.callerLeft || w.Permits >= first.Permits)
}

// goOn records what became of the request, and plans the next one. Guarded by mu.
func (b *batch) goOn(outcome outcome, req *request.Request, reply request.Reply, err error) {
	q := b.queue
	if outcome.unclaimed > 0 && !req.Releases {
		b.regrant(&outcome)
	}
	if err != nil || outcome.unclaimed > 0 || req.Withdraws() || q.unowned.withdrawal != nil {
		q.noteUnowned(req, err, outcome.toWaiters+outcome.atOnce, outcome.unclaimed)
	}
	if err != nil && b.hung(err) {
		b.shareError(err, req.Releases)
	}
	if !req.Releases {
		b.plan(outcome, reply)
	} else if err == nil {
		q.line.portion.NoteReleased(req.Permits())
	}
}

// plan records what the reply to an acquire says, and when the line is probed next. Guarded by mu.
func (b *batch) plan(outcome outcome, reply request.Reply) {
	q := b.queue
	if reply.Rate > 0 {
		q.lastReply.rate = reply.Rate
	}
	first := outcome.refused
	if first.waiter != nil && q.line.portion == nil {
		q.line.portion = &turns.Portion{}
	}
	if q.line.portion != nil {
		q.line.portion.NoteReply(outcome.toWaiters, outcome.atOnce, reply.Java, b.began)
	}
	if first.waiter != nil {
		left := int64(0)
		if first.again {
			left = max(0, reply.Left)
		}
		q.line.portion.NoteRefusal(wire.Milliseconds(reply.Interval), wire.Microseconds(first.wait), left,
			reply.Beside, b.began)
	}
	if q.line.size > 0 {
		b.schedule(first)
	}
}

// dismiss removes a waiter from the batch: with its result, or into the line. Guarded by
// mu.
func (b *batch) dismiss(w *waiter, v request.Result, err error, first refusal) {
	switch {
	case w.state == gone:
		w.remove()
	case err != nil || v.OK || !w.Waits() || w.isFinal(b.number) && first.covers(w):
		b.deliver(w, v, err)
	case w.state == probed:
		w.state = inLine
	default:
		b.queue.registry.Waits(b.queue.target.Hash)
		b.queue.line.stand(w)
	}
}

// hung reports whether the batch failed because it hung. A batch that was
// cancelled, or ended at the deadline of its leader, did not: go-redis would have
// made further attempts.
func (b *batch) hung(err error) bool {
	ledTo := b.leader != nil && b.leader.canLeave
	return !ledTo && !redisx.Answered(err) && !errors.Is(err, context.Canceled) &&
		time.Since(b.began) > HangsAfter
}

// deliver gives a waiter its result. The waiter no longer belongs to the queue.
// Guarded by mu.
func (b *batch) deliver(w *waiter, v request.Result, err error) {
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
				b.deliver(w, request.Result{}, err)
			}
		})
	}
}

// regrant gives permits that were granted to callers that have left to the head
// of the line. Taking them back through Redis would cost a round trip, during which
// another process could take them. Guarded by mu.
func (b *batch) regrant(o *outcome) {
	q := b.queue
	for w := q.line.first; w != nil && !w.ofGroup() && w.Permits <= o.unclaimed; w = q.line.first {
		o.unclaimed -= w.Permits
		o.toWaiters += w.Permits
		b.deliver(w, request.Result{OK: true}, nil)
		q.line.schedule.NoteChange()
	}
}
