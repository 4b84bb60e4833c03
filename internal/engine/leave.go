package engine

import (
	"context"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// Grace is how long an expired caller waits for a reply that is under way, so that a slow
// Redis can still say yes or no. A result is late by at most Grace.
const Grace = 30 * time.Millisecond

// await waits for the result of a call, its timeout, its budget or the end of
// ctx. The timeout takes two steps: first the next batch decides, and Grace later
// the caller leaves.
func (w *waiter) await(ctx context.Context, q *queue) (Result, error) {
	// Only Redis can end this wait, so there is nothing to select from.
	if !w.canLeave {
		<-w.ready // takes less time than a select
		return w.result(q)
	}
	select {
	case <-w.ready: // it has led its batch, and needs no timers
		return w.result(q)
	default:
	}
	var timeout, silence <-chan time.Time // nil, which blocks for ever, where there is none
	if w.Timed() {
		timeout = start(&w.timer, time.Until(w.expiresAt()))
	}
	if w.Budget > 0 {
		silence = start(&w.budgetTimer, w.Budget)
	}
	var why error
	for expired := false; why == nil; {
		select {
		case <-w.ready:
			return w.result(q)
		case <-timeout:
			if expired {
				why = limit.ErrNoAnswer
				break
			}
			expired = true
			w.expire(q)
			w.timer.Reset(Grace)
		case <-silence:
			if rest := w.budgetLeft(q); rest > 0 {
				w.budgetTimer.Reset(rest)
			} else {
				why = errSilent
			}
		case <-ctx.Done():
			why = ctx.Err()
		}
	}
	budget := w.Budget
	left, why, cause := w.leave(q, why)
	if !left {
		<-w.ready
		return w.result(q)
	}
	if why == errSilent {
		return Result{Queued: w.queued()}, Silent(budget, cause)
	}
	return Result{Queued: w.queued()}, unanswered(why, cause)
}

// budgetLeft returns the rest of a waiter's budget. It is spent while Redis owes
// the waiter a reply. Redis owes none to a waiter in line until its permits are
// due, or a long wait for permits would count as a failure of Redis.
func (w *waiter) budgetLeft(q *queue) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
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

// result returns the result of a waiter, and recycles it.
func (w *waiter) result(q *queue) (Result, error) {
	v, err := w.outcome, w.err
	q.engine.queues.recycle(w)
	return v, err
}

// expire records that the timeout of a waiter has passed: the next batch decides.
func (w *waiter) expire(q *queue) {
	q.mu.Lock()
	defer q.mu.Unlock()
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
	q.mu.Lock()
	defer q.mu.Unlock()
	wasInLine := w.state == inLine || w.state == probed
	refusedUntil := q.line.schedule.RefusedUntil()
	switch w.state {
	case answered, gone: // it was answered meanwhile, or the Engine was closed
		return false, nil, nil
	case judged, probed:
		if q.line.blocksOthers(w) {
			q.line.schedule.NoteLeft() // the refusal was about this waiter
		}
		// The last caller to leave ends the call. go-redis may ignore that, so
		// restart then checks whether the batch hangs.
		if q.batch.waiting--; q.batch.waiting == 0 {
			q.batch.cancel()
			time.AfterFunc(hangsAfter-time.Since(q.batch.began)+time.Millisecond, q.restart)
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

// failClosed answers a waiter with ErrClosed. If a batch has it, it ends as gone,
// so that the batch drops it and no new caller reuses it. Guarded by the queue's
// mu.
func (w *waiter) failClosed() {
	inBatch := w.state == judged || w.state == probed // the batch under way
	if w.state == gone || w.state == answered {
		return
	}
	w.finish(Result{}, ErrClosed)
	if w.ofGroup() {
		return // the Group's caller watches the Engine
	}
	if inBatch {
		w.state = gone
	}
	w.ready <- struct{}{}
}
