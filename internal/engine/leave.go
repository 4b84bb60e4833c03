package engine

import (
	"context"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// Grace is how long a caller whose timeout has passed waits for a reply
// that is on its way, so that a Redis that is merely slow still says yes or
// no. It is the lateness of a result at the most.
const Grace = 30 * time.Millisecond

// await waits for the result of a caller, for the end of its timeout and for
// that of ctx.
func (w *waiter) await(ctx context.Context, q *queue) (Verdict, error) {
	if !w.canLeave {
		<-w.ready // takes less than a select
		return w.result(q)
	}
	timeout := w.startTimer()
	var silence <-chan time.Time
	var budgetTimer *time.Timer
	if w.Budget > 0 {
		budgetTimer = time.NewTimer(w.Budget)
		defer budgetTimer.Stop()
		silence = budgetTimer.C
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
				budgetTimer.Reset(rest)
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
		return Verdict{Queued: w.queued()}, Silent(budget, cause)
	}
	return Verdict{Queued: w.queued()}, unanswered(why, cause)
}

// rest returns what is left of a waiter's budget. It is spent while Redis owes the
// waiter a reply; one that stands in line until its permits are due is owed none.
func (w *waiter) budgetLeft(q *queue) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch w.state {
	case arrived, judged:
		return w.Budget - time.Since(w.enteredAt)
	case probed:
		return w.Budget - time.Since(q.batch.began)
	case inLine:
		last := w.enteredAt // since then, or since a later moment of these, a reply is due
		for _, t := range []time.Time{q.line.dueAt, q.lastReply.at} {
			if t.After(last) {
				last = t
			}
		}
		return w.Budget - time.Since(last)
	}
	return w.Budget // it has its result
}

// result returns what a waiter was told, and recycles it.
func (w *waiter) result(q *queue) (Verdict, error) {
	v, err := w.verdict, w.err
	q.engine.queues.recycle(w)
	return v, err
}

// expire notes that the timeout of a waiter has passed: the next batch decides.
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
		q.line.probe = probeNext
		q.start()
	}
}

// leave takes away a caller that does not wait any longer, and returns why it
// leaves, and what Redis or the network said last. It reports false if the caller
// has its result already. What a batch that is under way brings for it goes to
// others.
//
// If Redis had said that the permits come only later, the result is a no, and the
// error nil, although the last probe got no reply.
func (w *waiter) leave(q *queue, why error) (left bool, _, cause error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	wasInLine, refusedUntil := w.state == inLine || w.state == probed, q.line.refusedUntil
	switch w.state {
	case answered, gone: // its result came meanwhile, or the Engine was closed
		return false, nil, nil
	case judged, probed:
		if q.line.blocksOthers(w) {
			q.line.refusedUntil = time.Time{} // it was said of this one
		}
		if q.batch.waiting--; q.batch.waiting == 0 {
			q.batch.cancel()
			time.AfterFunc(hangsAfter-time.Since(q.batch.began)+time.Millisecond, q.restart)
		}
	default:
		heads := q.line.blocksOthers(w)
		w.remove()
		if heads {
			q.line.scheduleProbe()
			defer q.start()
		}
	}
	w.state = gone
	if why == limit.ErrNoAnswer && q.lastReply.failure == nil && wasInLine && refusedUntil.After(time.Now()) {
		return true, nil, nil
	}
	return true, why, q.lastReply.failure
}

// abandon tells a waiter that the Engine is closed. Guarded by the queue's mu.
func (w *waiter) failClosed() {
	inBatch := w.state == judged || w.state == probed // to the batch under way
	if w.state == gone || w.state == answered {
		return
	}
	w.finish(Verdict{}, ErrClosed)
	if w.ofGroup() {
		return // its caller sees by itself that the Engine is closed
	}
	if inBatch {
		w.state = gone
	}
	w.ready <- struct{}{}
}
