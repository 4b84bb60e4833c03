package queue

import (
	"context"
	"errors"
	"time"

	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/request"
	"github.com/redisson-go/rratelimiter/limit"
)

// HangsAfter is how long a request may take before it hangs. If it then fails, go-redis has used up all its
// attempts, and the callers behind it get its error without attempts of their own, as those behind a call of
// a Group do (internal/engine). If all its callers have left, the next one is sent beside it; and no caller
// stays for the replies of its server (keepsDeadline).
const HangsAfter = 250 * time.Millisecond

// Grace is how long an expired caller waits for a reply that is under way, so that a slow
// Redis can still say yes or no. A result is late by at most Grace.
const Grace = 30 * time.Millisecond

// await waits for the result of a call, its timeout, its budget or the end of
// ctx. The timeout takes two steps: first the next batch decides, and Grace later
// the caller leaves.
func (w *waiter) await(ctx context.Context, q *queue) (request.Result, error) {
	// Only Redis can end this wait, so there is nothing to select from.
	if !w.canLeave {
		<-w.ready // takes less time than a select
		return w.result(q.registry)
	}
	select {
	case <-w.ready: // it has led its batch, and needs no timers
		return w.result(q.registry)
	default:
	}
	var timeout, silence <-chan time.Time // nil, which blocks for ever, where there is none
	if w.Timed() {
		timeout = start(&w.timers.timeout, time.Until(w.enteredAt.Add(w.Timeout)))
	}
	if w.Budget > 0 {
		silence = start(&w.timers.budget, w.Budget)
	}
	var why error
	for expired := false; why == nil; {
		select {
		case <-w.ready:
			return w.result(q.registry)
		case <-timeout:
			if expired {
				why = limit.ErrNoAnswer
				break
			}
			expired = true
			w.expire(q)
			w.timers.timeout.Reset(Grace)
		case <-silence:
			if rest := w.budgetLeft(q); rest > 0 {
				w.timers.budget.Reset(rest)
			} else {
				why = failure.ErrBudgetSpent
			}
		case <-ctx.Done():
			why = ctx.Err()
		}
	}
	budget := w.Budget
	left, why, cause := w.leave(q, why)
	if !left {
		<-w.ready
		return w.result(q.registry)
	}
	v := request.Result{Notes: request.Notes{Queued: w.queued()}}
	if why == failure.ErrBudgetSpent {
		return v, failure.Silent(budget, cause)
	}
	return v, failure.Unanswered(why, cause)
}

// budgetLeft returns the rest of a waiter's budget. It is spent while Redis owes
// the waiter a reply. Redis owes none to a waiter in line until its permits are
// due, or a long wait for permits would count as a failure of Redis.
func (w *waiter) budgetLeft(q *queue) time.Duration {
	q.lock()
	defer q.unlock()
	switch w.state {
	case arrived, judged:
		return w.Budget - time.Since(w.enteredAt)
	case probed:
		return w.Budget - time.Since(q.batch.began)
	case inLine:
		last := w.enteredAt // the latest moment from which a reply is due
		for _, t := range []time.Time{q.line.schedule.DueAt(), q.lastReply.at} {
			if t.After(last) {
				last = t
			}
		}
		return w.Budget - time.Since(last)
	}
	return w.Budget // it has its result
}

// result returns the result of a waiter, and keeps it for another call unless its caller has left: a batch
// may then still have a pointer to it.
func (w *waiter) result(r *Registry) (request.Result, error) {
	v, err := w.outcome, w.err
	for _, timer := range []*time.Timer{w.timers.timeout, w.timers.budget} {
		if timer != nil {
			timer.Stop()
		}
	}
	if w.state == answered {
		*w = waiter{ready: w.ready, timers: w.timers}
		r.waiters.Put(w)
	}
	return v, err
}

// expire records that the timeout of a waiter has passed: the next batch decides.
func (w *waiter) expire(q *queue) {
	q.lock()
	defer q.unlock()
	if w.state == answered || w.state == gone {
		return
	}
	w.finalBatch = q.batch.number + 1
	if w.list != nil {
		w.list.expired++
	}
	if w.state == inLine {
		q.line.schedule.NoteExpiry()
		q.start()
	}
}

// leave removes a caller that no longer waits. It returns the reason, and the
// last failure of Redis or the network. left is false if the caller already has a
// result. Permits that a batch under way still gets for it go to other waiters.
//
// If Redis had replied that the permits come only later, the answer is no and the
// error nil, even if the last probe got no reply.
func (w *waiter) leave(q *queue, why error) (left bool, _, cause error) {
	q.lock()
	defer q.unlock()
	wasInLine := w.state == inLine || w.state == probed
	refusedUntil := q.line.schedule.RefusedUntil()
	switch w.state {
	case answered, gone: // it was answered meanwhile, or the Pool was closed
		return false, nil, nil
	case judged, probed:
		if q.line.blocksOthers(w) {
			q.line.schedule.NoteLeft() // the refusal was about this waiter
		}
		// The last caller to leave ends the call. go-redis may ignore that, so
		// restart then checks whether the batch hangs.
		if q.batch.waiting--; q.batch.waiting == 0 {
			q.batch.cancel()
			time.AfterFunc(HangsAfter-time.Since(q.batch.began)+time.Millisecond, q.restart)
		}
	default:
		heads := q.line.blocksOthers(w)
		w.remove()
		if heads {
			q.line.schedule.NoteChange()
			defer q.start()
		}
	}
	w.state = gone
	if why == limit.ErrNoAnswer && q.lastReply.failure == nil && wasInLine && refusedUntil.After(time.Now()) {
		return true, nil, nil
	}
	return true, why, q.lastReply.failure
}

// failClosed answers a waiter with failure.ErrClosed. If a batch has it, it ends as gone,
// so that the batch drops it and no new caller reuses it. Guarded by the queue's
// mu.
func (w *waiter) failClosed() {
	inBatch := w.state == judged || w.state == probed // the batch under way
	if w.state == gone || w.state == answered {
		return
	}
	w.finish(request.Result{}, failure.ErrClosed)
	if w.ofGroup() {
		return // the caller of Places watches the Pool
	}
	if inBatch {
		w.state = gone
	}
	w.ready <- struct{}{}
}

// keepsDeadline reports whether go-redis ends the request of a caller in time, so that
// the caller need not be able to leave it. It does so at a deadline, not when the context
// is cancelled. A cancellation before the deadline takes effect late once, if Redis is
// silent: after that, callers can leave until Redis has replied again.
func (r *Registry) keepsDeadline(ctx context.Context, t *request.Target, w *waiter) bool {
	if r.silent[t.Server()].Load() {
		return false
	}
	_, dated := ctx.Deadline()
	return dated || ctx.Done() == nil && (w.Timed() || w.Budget > 0)
}

// noteReply records whether the server of a limiter replies in time, for keepsDeadline. Both are called if
// go-redis keeps deadlines.
func (r *Registry) noteReply(ctx context.Context, t *request.Target, sent time.Time, err error) {
	silent := time.Since(sent) > HangsAfter || err != nil && !redisx.Final(err)
	before := &r.silent[t.Server()]
	if silent != before.Load() && !(errors.Is(err, context.Canceled) && ctx.Err() != nil) {
		before.Store(silent)
	}
}

// repliesBy returns when a waiter that has just come leaves without a reply, and the reason; the zero Time
// if only its context ends it.
func (w *waiter) repliesBy() (end time.Time, why error) {
	if w.Timed() {
		end, why = w.enteredAt.Add(w.Timeout+Grace), limit.ErrNoAnswer
	}
	if spent := w.enteredAt.Add(w.Budget); w.Budget > 0 && (why == nil || spent.Before(end)) {
		end, why = spent, failure.ErrBudgetSpent
	}
	return end, why
}

// lead carries out the request of a lone caller in the goroutine of that caller: handing
// it to another goroutine would take longer than all other work in Go. A worker serves
// callers that have arrived meanwhile.
func (b *batch) lead(w *waiter) {
	q := b.queue
	ctx := Context{q.registry.Pool.Context(), w.ctx, q}
	if w.canLeave {
		ctx.Context = w.ctx
	}
	if end, why := w.repliesBy(); why != nil {
		timed, cancel := context.WithDeadlineCause(ctx.Context, end, why)
		defer cancel()
		ctx.Context = timed
	}
	b.leader = w
	sent := false
	defer func() {
		if !sent { // a hook of go-redis has panicked, and w will not read its result
			q.lock()
			if !b.abandoned {
				q.abandonBatch()
			}
			q.abandoned--
			q.start()
			q.unlock()
		}
	}()
	goesOn := b.send(ctx)
	if sent = true; goesOn && !q.registry.Pool.Work(b.run) {
		q.lock()
		q.busy = false
		q.close()
		q.unlock()
	}
}

// ended returns the error of a batch that its leader has made. A leader whose timeout or budget has ended the
// request leaves as other callers do. Guarded by mu.
func (b *batch) ended(ctx context.Context, err error) error {
	why := context.Cause(ctx)
	if why != limit.ErrNoAnswer && why != failure.ErrBudgetSpent || redisx.Final(err) {
		return err
	}
	cause := err
	if errors.Is(err, context.DeadlineExceeded) {
		cause = b.queue.lastReply.failure
	}
	if why == failure.ErrBudgetSpent {
		return failure.Silent(b.leader.Budget, cause)
	}
	return failure.Unanswered(why, cause)
}
