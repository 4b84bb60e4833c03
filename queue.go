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

	// grace is how long a caller whose timeout has passed waits for a reply
	// that is on its way, so that a Redis that is merely slow still says yes or
	// no. It is the lateness of a result at the most.
	grace = 30 * time.Millisecond

	// maxDeserted is how many batches of a limiter may hang, each on a connection
	// of its own, with one more under way: a pool of go-redis has ten connections
	// for each processor, and other limiters need some.
	maxDeserted = 3
)

// A queue is where the callers of one limiter meet, those of all RateLimiters
// of its name that a Client has handed out. It is there while somebody calls;
// a limiter that nobody uses has none.
//
// One batch is under way at a time. A second one at once was measured to gain
// next to nothing, and would have to be kept in order with the first; but one
// that hangs, and which nobody waits for any more, is left alone. A caller that
// finds the queue idle starts a batch. Callers that arrive during a batch
// share the next one (batch.go). A caller that is refused and has time stands
// in line (waiter.go). The line is probed, from its head on, when the permits
// of its head are due or something has changed (wake.go), and nobody in it is
// served before those ahead of it. A caller without a timeout takes what is
// there, also when others wait.
//
// Whatever a batch does, callers get their results in time: each has a timer and
// a context of its own, and leaves when they end.
type queue struct {
	client *Client
	poke   chan struct{} // capacity one: the line, or when it is due, has changed

	mu         sync.Mutex
	keys       *limiterKeys // the limiter
	live       bool         // it is in client.queues; also guarded by client.queuesMu
	busy       bool         // a batch is under way
	batch      *batch       // the one under way, or the one before
	deserted   int          // batches that hang and nobody waits for any more, besides batch
	arrivals   waiterList   // no batch has taken them yet
	returns    waiterList   // releases that no batch has taken yet
	gave       bool         // the last batch was one of those
	withdrawal *withdrawal  // permits that nobody holds, to be taken back; nil if there are none
	parked     bool         // they wait until Redis is well (withdraw.go)
	line       waiterList   // refused, waiting
	places     int64        // counts those who have stood in line
	reserved   int          // group's callers who have a place in line, also where they let others pass
	attended   bool         // a goroutine probes the line when it is due
	probe      probe        // when the line is probed
	due        time.Time    // the time, for probeWhenDue
	known      time.Time    // until then Redis can serve nobody in line; zero if that may have changed
	yields     bool         // it is Java's turn (turns.go): those in line wait, unless their timeout passes
	rate       int64        // as the last reply had it that told it; 0 not known
	heard      time.Time    // when Redis last replied to a batch
	cause      error        // what Redis or the network said last, if it was no reply
	turns      turns        // who goes first when permits are due: Go or Java
	portion    portion      // of the limit, beside other processes of Go
	lingers    bool         // a timer retires it, when nobody has come again
}

// A probe is when a batch includes the line.
type probe int

const (
	probeWhenDue  probe = iota // when the permits of the head are due
	probeNext                  // the next batch includes it
	probeUnderWay              // the batch under way does, and nothing has changed since
)

// acquire asks for permits until it gets them, their timeout passes or ctx ends, and tells
// the observer.
func (l *RateLimiter) acquire(ctx context.Context, wanted want) (verdict, error) {
	o := l.keys.Load().client.observer
	if o == nil {
		return l.decide(ctx, wanted)
	}
	start := time.Now()
	v, err := l.decide(ctx, wanted)
	o.Observe(ctx, v.observation(l, wanted, start, err))
	return v, err
}

// decide asks for permits until it gets them, their timeout passes or ctx ends.
func (l *RateLimiter) decide(ctx context.Context, wanted want) (verdict, error) {
	k := l.keys.Load()
	if err := checkPermits(wanted.permits, 1); err != nil {
		return verdict{}, k.named(err)
	}
	if err := k.usable(ctx); err != nil {
		return verdict{}, err
	}
	if l.givenRate != nil {
		wanted.set = l.givenRate.text
	}
	if l.policy.bounded || k.client.guard.off.Load() {
		return l.guarded(ctx, k, wanted)
	}
	return l.enqueue(ctx, wanted)
}

// enqueue has a caller stand in the queue of the limiter until it has its result.
func (l *RateLimiter) enqueue(ctx context.Context, wanted want) (verdict, error) {
	k, q := l.keys.Load(), l.enter()
	w := q.client.newWaiter(ctx, wanted)
	w.standing = arrived
	if w.gives {
		q.returns.push(w)
	} else {
		q.arrivals.push(w)
	}
	closed := q.client.closed()
	if closed {
		q.close()
	} else {
		q.start()
	}
	q.mu.Unlock()
	if closed {
		q.retire()
	}
	v, err := q.await(ctx, k, w)
	return v, k.named(k.ended(ctx, err))
}

// wanted reports whether there is anything for a batch to do. Guarded by mu.
func (q *queue) wanted() bool { return q.acquires() || !q.returns.empty() || q.withdraws() }

// withdraws reports whether permits are to be taken back now. Guarded by mu.
func (q *queue) withdraws() bool { return q.withdrawal != nil && !q.parked }

// acquires puts the arrivals that wait where they belong, and reports whether
// there is anybody whom a batch would ask permits for now. Guarded by mu.
//
// An arrival that waits stands behind those in line, who would be served before
// it. Only if it wants more than the rate that was met last must Redis be asked,
// with all ahead of it: there may be another rate.
func (q *queue) acquires() bool {
	if !q.line.empty() || q.yields {
		q.arrivals.all(func(w *waiter) {
			if !w.waits() {
				return
			}
			ofGroup := q.line.first.ofGroup()
			if ofGroup && q.rate > 0 && w.permits > q.rate {
				return // a batch says whether there is another rate
			}
			q.stand(w)
			if w.permits > q.rate && !ofGroup {
				q.rate = 0
				q.changed()
			}
			if w.expired() {
				q.probe = probeNext
			}
		})
	}
	return !q.arrivals.empty() || q.probes()
}

// probes reports whether the next batch includes the line. Guarded by mu.
func (q *queue) probes() bool {
	return q.probe == probeNext && !q.line.empty() && !q.line.first.ofGroup() &&
		(!q.yields || q.line.expired > 0)
}

// stand puts a waiter at the end of the line. Guarded by mu.
func (q *queue) stand(w *waiter) {
	w.remove()
	w.standing = inLine
	q.places++
	w.place = q.places
	if q.client.observer != nil && w.stood.IsZero() {
		w.stood = time.Now()
	}
	q.line.push(w)
}

// changed has the line probed, as something may have changed: what Redis has said of
// it does not hold any more. Guarded by mu.
func (q *queue) changed() { q.probe, q.known = probeNext, time.Time{} }

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
	q.remind()
}

// close tells everybody that the Client is closed. What a batch that is under
// way may still be granted comes back by itself. Guarded by mu.
func (q *queue) close() {
	q.withdrawal = nil
	for _, ls := range []*waiterList{&q.arrivals, &q.returns, &q.line} {
		ls.all(q.abandon)
	}
	for _, w := range q.batch.waiters {
		q.abandon(w)
	}
}

// abandon tells one of them. Guarded by mu.
func (q *queue) abandon(w *waiter) {
	known := w.standing == judged || w.standing == probed // to the batch under way
	if w.standing == gone || w.standing == answered {
		return
	}
	w.finish(verdict{}, ErrClosed)
	if w.ofGroup() {
		return // its caller sees by itself that the Client is closed
	}
	if known {
		w.standing = gone
	}
	w.ready <- struct{}{}
}

// await waits for the result of a caller, for the end of its timeout and for
// that of ctx. Errors have the name by which the caller knows the limiter.
func (q *queue) await(ctx context.Context, k *limiterKeys, w *waiter) (verdict, error) {
	if !w.canLeave {
		<-w.ready // takes less than a select
		return q.result(w)
	}
	passed := w.startTimer()
	var silent <-chan time.Time
	var spent *time.Timer
	if w.budget > 0 {
		spent = time.NewTimer(w.budget)
		defer spent.Stop()
		silent = spent.C
	}
	var why error
	for expired := false; why == nil; {
		select {
		case <-w.ready:
			return q.result(w)
		case <-passed:
			if expired {
				why = ErrNoAnswer
				break
			}
			expired = true
			q.expire(w)
			w.timer.Reset(grace)
		case <-silent:
			if rest := q.rest(w); rest > 0 {
				spent.Reset(rest)
			} else {
				why = errSilent
			}
		case <-ctx.Done():
			why = ctx.Err()
		}
	}
	budget := w.budget
	left, why, cause := q.leave(w, why)
	if !left {
		<-w.ready
		return q.result(w)
	}
	if why == errSilent {
		return verdict{queued: w.queued()}, k.silent(budget, cause)
	}
	return verdict{queued: w.queued()}, k.unanswered(why, cause)
}

// rest returns what is left of a waiter's budget. It is spent while Redis owes the
// waiter a reply; one that stands in line until its permits are due is owed none.
func (q *queue) rest(w *waiter) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch w.standing {
	case arrived, judged:
		return w.budget - time.Since(w.came)
	case probed:
		return w.budget - time.Since(q.batch.began)
	case inLine:
		last := w.came // since then, or since a later moment of these, a reply is due
		for _, t := range []time.Time{q.due, q.heard} {
			if t.After(last) {
				last = t
			}
		}
		return w.budget - time.Since(last)
	}
	return w.budget // it has its result
}

// result returns what a waiter was told, and recycles it.
func (q *queue) result(w *waiter) (verdict, error) {
	v, err := w.verdict, w.err
	q.client.recycle(w)
	return v, err
}

// expire notes that the timeout of a waiter has passed: the next batch decides.
func (q *queue) expire(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.standing == answered || w.standing == gone {
		return
	}
	w.lastBatch = q.batch.number + 1
	if w.in != nil {
		w.in.expired++
	}
	if w.standing == inLine {
		q.probe = probeNext
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
func (q *queue) leave(w *waiter, why error) (left bool, _, cause error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	stood, known := w.standing == inLine || w.standing == probed, q.known
	switch w.standing {
	case answered, gone: // its result came meanwhile, or the Client was closed
		return false, nil, nil
	case judged, probed:
		if q.heads(w) {
			q.known = time.Time{} // it was said of this one
		}
		if q.batch.waiting--; q.batch.waiting == 0 {
			q.batch.cancel()
			time.AfterFunc(hanging-time.Since(q.batch.began)+time.Millisecond, q.restart)
		}
	default:
		heads := q.heads(w)
		w.remove()
		if heads {
			q.changed()
			defer q.start()
		}
	}
	w.standing = gone
	if why == ErrNoAnswer && q.cause == nil && stood && known.After(time.Now()) {
		return true, nil, nil
	}
	return true, why, q.cause
}

// heads reports whether a waiter is the head of the line, and those behind it want less: they may
// be served at once when it has left. Guarded by mu.
func (q *queue) heads(w *waiter) bool {
	return w == q.line.first && (w.next == nil || w.next.ofGroup() || w.next.permits < w.permits)
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
		q.changed()
	}
	q.deserted++
	q.batch.deserted = true
	q.ambiguous(q.batch.request)
	q.batch = &batch{queue: q, number: q.batch.number, waiting: notUnderWay}
	q.busy = false
}
