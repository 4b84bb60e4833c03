package rratelimiter

import (
	"context"
	"math"
	"sync"
	"time"
)

const (
	// forever is a timeout that does not pass.
	forever time.Duration = math.MaxInt64

	// grace is how long a caller whose timeout has passed waits for an answer
	// that is on its way, so that a Redis that is merely slow still says yes or
	// no. It is the lateness of an answer at the most.
	grace = 30 * time.Millisecond

	// maxDeserted is how many batches of a limiter may hang, each on a
	// connection of its own, with one more under way.
	maxDeserted = 3
)

// A queue is where the callers of one limiter meet, those of all RateLimiters
// of its name that a Client has handed out. It is there while somebody calls;
// a limiter that nobody uses has none.
//
// One batch is under way at a time; a second one at once was measured to gain
// next to nothing, and would have to be kept in order with the first; but one
// that hangs, and which nobody waits for any more, is left alone. A caller that
// finds the queue idle starts a batch. Callers that arrive during a batch
// share the next one (batch.go). A caller that is refused and has time stands
// in line (waiter.go). The line is probed, from its head on, when the permits
// of its head are due or something has changed (wake.go), and nobody in it is
// served before those ahead of it. A caller without a timeout takes what is
// there, also when others wait.
//
// Whatever a batch does, callers are answered in time: each has a timer and a
// context of its own, and leaves when they end.
type queue struct {
	client *Client
	poke   chan struct{} // capacity one: the line, or when it is due, has changed

	mu         sync.Mutex
	keys       *limiterKeys // the limiter
	live       bool         // it is in client.queues; also guarded by client.queuesMu
	busy       bool         // a batch is under way
	batch      *batch       // the one under way, or the one before
	deserted   int          // batches that nobody waits for any more, besides that
	arrivals   list         // no batch has taken them yet
	returns    list         // those who give permits back, as long
	gave       bool         // the last batch was one of those
	withdrawal *withdrawal  // permits that nobody holds, to be taken back; nil if there are none
	parked     bool         // they wait until Redis is well (withdraw.go)
	line       list         // refused, waiting
	attended   bool         // a goroutine probes the line when it is due
	probe      bool         // the next batch includes the line
	yields     bool         // it is Java's turn (turns.go): those in line wait, unless their timeout passes
	due        time.Time    // when to probe the line; zero while a batch includes it
	known      time.Time    // until when nobody in line can be served, as Redis has said; zero where that may have changed
	rate       int64        // last met by a batch that included the line; 0 not known
	cause      error        // what Redis or the network said last, if it was no answer
	turns      turns        // who goes first when permits are due: Go or Java
}

// acquire asks for permits until it gets them, timeout passes or ctx ends.
func (l *RateLimiter) acquire(ctx context.Context, permits int64, timeout time.Duration, numbers bool) (answer, error) {
	k := l.keys.Load()
	if err := checkPermits(permits, 1); err != nil {
		return answer{}, k.named(err)
	}
	if err := k.usable(ctx); err != nil {
		return answer{}, err
	}
	return l.asks(ctx, k.client.newWaiter(ctx, permits, timeout, false, numbers), timeout)
}

// asks has a waiter stand in the queue of the limiter until it is answered.
func (l *RateLimiter) asks(ctx context.Context, w *waiter, timeout time.Duration) (answer, error) {
	k, q := l.keys.Load(), l.enter()
	if w.gives {
		q.returns.push(w)
	} else {
		q.arrivals.push(w)
	}
	closed := q.client.ctx.Err() != nil
	if closed {
		q.close()
	} else {
		q.start()
	}
	q.mu.Unlock()
	if closed {
		q.rest()
	}
	a, why, err := q.await(ctx, w, timeout)
	if why != nil {
		err = k.unanswered(why, err)
	}
	return a, k.named(k.ended(ctx, err))
}

// enter returns the queue of the limiter, locked.
func (l *RateLimiter) enter() *queue {
	k := l.keys.Load()
	if last := l.queue.Load(); last != nil {
		last.mu.Lock()
		if last.live && last.keys.hash == k.hash {
			return last
		}
		last.mu.Unlock() // it may be another limiter's by now
	}
	c := k.client
	c.queuesMu.Lock()
	defer c.queuesMu.Unlock()
	q := c.queues[k.hash]
	if q == nil {
		q = c.newQueue()
		c.queues[k.hash] = q
	}
	q.mu.Lock()
	if !q.live {
		q.keys, q.live, q.turns = k, true, c.firstTurns()
		q.rate, q.cause, q.known, q.due = 0, nil, time.Time{}, time.Time{}
		q.probe, q.gave = false, false
	}
	l.queue.Store(q)
	return q
}

// newQueue returns a queue, which may have been another limiter's.
func (c *Client) newQueue() *queue {
	q, ok := c.spare.Get().(*queue)
	if !ok {
		q = &queue{client: c, poke: make(chan struct{}, 1)}
		q.batch = &batch{queue: q, waiting: answeredAll}
	}
	return q
}

// idle reports whether nobody needs the queue. Guarded by mu.
func (q *queue) idle() bool {
	return !q.busy && !q.attended && q.deserted == 0 && q.withdrawal == nil && !q.parked &&
		q.arrivals.empty() && q.returns.empty() && q.line.empty()
}

// rest takes the queue away when nobody needs it.
func (q *queue) rest() {
	q.client.queuesMu.Lock()
	defer q.client.queuesMu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.live || !q.idle() {
		return
	}
	q.live = false
	delete(q.client.queues, q.keys.hash)
	if cap(q.batch.waiters) <= maxRuns { // what a burst has needed is not kept
		q.client.spare.Put(q)
	}
}

// wanted reports whether there is anything for a batch to do. Guarded by mu.
func (q *queue) wanted() bool { return q.asks() || !q.returns.empty() || q.withdraws() }

// withdraws reports whether permits are to be taken back now. Guarded by mu.
func (q *queue) withdraws() bool { return q.withdrawal != nil && !q.parked }

// asks puts the arrivals that wait where they belong, and reports whether
// anybody wants permits now. Guarded by mu.
//
// An arrival that waits stands behind those in line, who would be served before
// it. Only if it wants more than the rate that was met last must Redis be asked,
// with all ahead of it: there may be another rate.
func (q *queue) asks() bool {
	if !q.line.empty() || q.yields {
		for w := q.arrivals.first; w != nil; {
			next := w.next
			if w.waits {
				q.stand(w)
				if w.permits > q.rate {
					q.rate = 0
					q.look()
				}
				q.probe = q.probe || w.lastLook > 0
			}
			w = next
		}
	}
	return !q.arrivals.empty() || q.probes()
}

// probes reports whether the next batch includes the line. Guarded by mu.
func (q *queue) probes() bool {
	return q.probe && !q.line.empty() && (!q.yields || q.line.expired > 0)
}

// stand puts a waiter at the end of the line. Guarded by mu.
func (q *queue) stand(w *waiter) {
	w.remove()
	w.refused = true
	q.line.push(w)
}

// look has the line probed, as something may have changed: what Redis has said of
// it does not hold any more. Guarded by mu.
func (q *queue) look() { q.probe, q.known = true, time.Time{} }

// start begins a batch if one is wanted and none is under way that anybody waits
// for, and sees to it that the line is probed later. Guarded by mu.
func (q *queue) start() {
	if q.busy && q.batch.waiting == 0 && q.deserted < maxDeserted && time.Since(q.batch.began) > hanging {
		q.desert()
	}
	if !q.busy && q.wanted() {
		q.busy = q.client.work(q.batch.run)
		if !q.busy {
			q.close()
		}
	}
	if !q.line.empty() && !q.attended {
		if q.attended = q.client.goBackground(q.attend); !q.attended {
			q.close()
		}
	}
	if q.attended {
		select {
		case q.poke <- struct{}{}:
		default:
		}
	}
}

// close answers everybody that the Client is closed. What a batch that is under
// way may still be granted comes back by itself. Guarded by mu.
func (q *queue) close() {
	q.withdrawal = nil
	for _, l := range []*list{&q.arrivals, &q.returns, &q.line} {
		for w := l.first; w != nil; {
			next := w.next
			q.abandon(w)
			w = next
		}
	}
	for _, w := range q.batch.waiters {
		q.abandon(w)
	}
}

// abandon answers one of them. Guarded by mu.
func (q *queue) abandon(w *waiter) {
	if w.left {
		return
	}
	w.left = w.asked // the batch still knows it
	w.end(answer{}, ErrClosed)
	w.answered <- struct{}{}
}

// await waits for the answer to a caller, for the end of its timeout and for
// that of ctx. It returns the answer or the error, or why the caller has left
// without, and what Redis or the network said last.
func (q *queue) await(ctx context.Context, w *waiter, timeout time.Duration) (a answer, why, err error) {
	if !w.canLeave {
		<-w.answered // takes less than a select
		a, err = q.result(w)
		return a, nil, err
	}
	var passed <-chan time.Time
	if w.waits && timeout != forever {
		passed = w.startTimer(timeout)
	}
	for expired := false; why == nil; {
		select {
		case <-w.answered:
			a, err = q.result(w)
			return a, nil, err
		case <-passed:
			if expired {
				why = ErrNoAnswer
				break
			}
			expired = true
			q.expire(w)
			w.timer.Reset(grace)
		case <-ctx.Done():
			why = ctx.Err()
		}
	}
	if !q.leave(w) {
		<-w.answered
		a, err = q.result(w)
		return a, nil, err
	}
	why, err = q.parted(w, why)
	return a, why, err
}

// result returns what a waiter was told, and recycles it.
func (q *queue) result(w *waiter) (answer, error) {
	a, err := w.answer, w.err
	q.client.recycle(w)
	return a, err
}

// expire has a waiter asked for once more whose timeout has passed: the next
// batch decides.
func (q *queue) expire(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.in == nil && !w.asked {
		return
	}
	w.lastLook = q.batch.number + 1
	if w.in != nil {
		w.in.expired++
	}
	if w.in == &q.line && !w.asked {
		q.probe = true
		q.start()
	}
}

// leave takes away a caller that does not wait any longer, and reports whether
// it had not been answered yet. What a batch that is under way brings for it
// goes to others.
func (q *queue) leave(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case w.asked:
		w.left = true
		if q.batch.waiting--; q.batch.waiting == 0 {
			q.batch.cancel()
			time.AfterFunc(hanging-time.Since(q.batch.began)+time.Millisecond, q.restart)
		}
	case w.in == nil:
		return false
	default:
		// Those behind the head may want less, and be served at once.
		if w == q.line.first && (w.next == nil || w.next.permits < w.permits) {
			q.look()
			defer q.start()
		}
		w.remove()
	}
	return true
}

// restart looks whether the batch under way hangs.
func (q *queue) restart() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.start()
}

// desert leaves the batch under way alone, which hangs and nobody waits for any
// more: the next one may have a better connection. Guarded by mu.
func (q *queue) desert() {
	for _, w := range q.batch.waiters {
		w.remove()
	}
	if q.batch.probes {
		q.look()
	}
	q.deserted++
	q.batch.deserted = true
	q.lost(q.batch.request)
	q.batch = &batch{queue: q, number: q.batch.number, waiting: answeredAll}
	q.busy = false
}

// parted returns why a caller has left, and what Redis or the network said last.
// Redis may have said that the permits would not be there by now: then a last
// look that is merely late changes nothing, and the answer is no.
func (q *queue) parted(w *waiter, why error) (error, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if why == ErrNoAnswer && q.cause == nil && w.refused && q.known.After(time.Now()) {
		return nil, nil
	}
	return why, q.cause
}
