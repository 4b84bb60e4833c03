package rratelimiter

import (
	"context"
	"errors"
	"runtime"
	"time"
)

const (
	// maxRuns is how many runs a batch has. Each takes Redis 0.3 us; requests
	// that are equal are one, however many they are.
	maxRuns = 256

	// hanging is how long a batch takes that hangs. One that took longer and
	// then failed has cost those behind it the time that their own would cost
	// them, for go-redis has tried all that it is set to.
	hanging = 250 * time.Millisecond

	// answeredAll is for a batch that is not under way.
	answeredAll = -1
)

// A batch is the requests that one script call judges. A queue has one, which
// it uses again and again.
type batch struct {
	queue *queue

	// Guarded by the queue's mu.
	number  int64     // counts the batches of the queue
	waiters []*waiter // those it judges, in their order
	waiting int       // those of them that have not left; answeredAll before and after
	probes  bool      // it includes the line
	cancel  func()    // ends its call, as far as go-redis lets it
	began   time.Time

	request *request // what it asks

	// deserted: nobody waits for it any more, and the queue has another one.
	deserted bool

	// What is gathered for a request.
	runs    []run
	permits int64
	numbers bool

	done []*waiter // to whom it delivers
}

// run makes batches as long as they are wanted.
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

// next makes a batch if one is wanted, and reports whether b goes on: otherwise
// the queue has paused, and b may be somebody else's by now.
func (b *batch) next(ctx context.Context, cancel func()) bool {
	q := b.queue
	q.mu.Lock()
	if q.client.ctx.Err() != nil {
		q.close()
	}
	r := b.take()
	if r == nil {
		idle := q.pause()
		q.mu.Unlock()
		if idle {
			q.rest()
		}
		return false
	}
	b.cancel = cancel
	caller := ctx
	if len(b.waiters) == 1 {
		caller = b.waiters[0].ctx
	}
	q.mu.Unlock()
	return b.ask(batchContext{ctx, caller, q}, r)
}

// A batchContext is the context of a batch. It has the values of its caller, if
// there is but one, for hooks of go-redis that look for the trace it belongs to.
type batchContext struct {
	context.Context
	caller context.Context
	queue  *queue
}

// Value is that of context.Context.
func (c batchContext) Value(key any) any {
	if key == (failures{}) {
		return c.queue.failed
	}
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.caller.Value(key)
}

// gather lets those who were answered just now run before it goes on: they may
// come again at once, and then share the next batch.
func (b *batch) gather() {
	for arrived, idle := 0, 0; idle < 10 && arrived < len(b.done); idle++ {
		runtime.Gosched()
		b.queue.mu.Lock()
		if b.queue.arrivals.size > arrived {
			arrived, idle = b.queue.arrivals.size, 0
		}
		b.queue.mu.Unlock()
	}
}

// take makes the request of the next batch: the line, if it is to be probed, and
// behind it the arrivals; in turns with those who give permits back. It returns
// nil if there is nothing to do. Guarded by mu.
func (b *batch) take() *request {
	q := b.queue
	asks := q.asks()
	gives := !q.returns.empty() && !(asks && q.gave)
	b.runs, b.permits, b.numbers, b.probes = nil, 0, false, false
	switch {
	case gives:
		for w := q.returns.first; w != nil && b.add(w); w = q.returns.first {
			w.remove()
		}
	case asks:
		if b.probes = q.probes(); b.probes {
			b.addLine()
			q.probe, q.due = false, time.Time{}
		}
		for w := q.arrivals.first; w != nil && b.add(w); w = q.arrivals.first {
			w.remove()
		}
	case !q.withdraws():
		return nil
	}
	q.gave = gives
	b.number++
	b.waiting, b.began = len(b.waiters), time.Now()
	if asks && !gives {
		b.request = q.keys.newAcquire(b.runs, q.withdrawal)
	} else {
		b.request = q.keys.newRelease(b.permits, q.withdrawal)
	}
	b.request.numbers = b.numbers
	return b.request
}

// addLine adds the line, from its head on: no more than the rate, for that cannot
// be granted at once, and where it is Java's turn none behind the last of those
// whose timeout has passed. Guarded by mu.
func (b *batch) addLine() {
	q := b.queue
	expired := q.line.expired
	for w := q.line.first; w != nil; w = w.next {
		if q.rate > 0 && b.permits > q.rate || q.yields && expired == 0 || !b.add(w) {
			return
		}
		if w.lastLook > 0 {
			expired--
		}
	}
}

// add reports whether there is room for a waiter in the batch. Guarded by mu.
func (b *batch) add(w *waiter) bool {
	one := int64(1)
	if w.waits {
		one = -1
	}
	last := len(b.runs) - 1
	joins := last >= 0 && b.runs[last].permits == w.permits && (b.runs[last].many < 0) == w.waits
	switch {
	case b.permits > maxPermits-w.permits:
		return false
	case w.gives: // they are one sum
	case joins:
		b.runs[last].many += one
	case len(b.runs) == maxRuns:
		return false
	default:
		b.runs = append(b.runs, run{w.permits, one})
	}
	b.waiters = append(b.waiters, w)
	b.permits += w.permits
	b.numbers = b.numbers || w.numbers
	w.asked = true
	return true
}

// ask sends the request of the batch and delivers the answers. It reports
// whether b goes on (next).
func (b *batch) ask(ctx context.Context, r *request) bool {
	q := b.queue
	rep, err := r.send(ctx)
	q.mu.Lock()
	if b.deserted {
		q.deserted--
	}
	switch {
	case err != nil && q.client.ctx.Err() != nil:
		err = ErrClosed
	case b.deserted:
	case err == nil || final(err):
		q.cause = nil // Redis has answered
	case ctx.Err() == nil || !errors.Is(err, ctx.Err()): // otherwise nobody has said anything
		q.cause = err
	}
	b.settle(r, rep, err)
	q.start()
	goesOn, idle := !b.deserted, false
	done := b.done
	switch {
	case b.deserted:
		idle = q.idle()
	case len(done) == 1 && !q.wanted():
		// One caller alone has its answer when all else is done, so that its
		// next call does not wait for what is left of this one.
		done = []*waiter{done[0]}
		goesOn, idle = false, q.pause()
	}
	q.mu.Unlock()
	if idle {
		q.rest()
	}
	for _, w := range done { // without mu, which those who come again need
		w.answered <- struct{}{}
	}
	return goesOn
}

// pause ends a series of batches, and reports whether the queue is idle then.
// Guarded by mu.
func (q *queue) pause() (idle bool) {
	q.busy = false
	q.start()
	return q.idle()
}

// failed keeps what Redis or the network said to an attempt, for those who
// leave before the next one.
func (q *queue) failed(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.cause = err
}

// A refusal is the first one of those in line: nobody behind it is served.
type refusal struct {
	*waiter
	wait int64 // us until its permits are there
}

// settle finds the answers to the waiters of the batch. Guarded by mu.
func (b *batch) settle(r *request, rep reply, err error) {
	q := b.queue
	b.done, b.waiting = b.done[:0], answeredAll
	s := newSplit(rep, r.runs)
	var granted, over int64
	var first refusal
	plain := err == nil && rep.answers == nil && !r.numbers // everybody gets the same
	for _, w := range b.waiters {
		to, e := answer{ok: plain}, err
		if err == nil && !plain {
			to, e = q.judge(s, w.permits)
		}
		if to.ok {
			granted += w.permits
		} else if w.waits && e == nil && first.waiter == nil {
			first = refusal{w, to.wait}
		}
		w.asked = false
		switch {
		case w.left:
			if to.ok {
				over += w.permits
			}
			w.remove()
		case e != nil || to.ok || !w.waits || w.final(b.number) && first.holds(w):
			b.tell(w, to, e)
		case w.in == nil:
			q.stand(w)
		}
	}
	clear(b.waiters)
	b.waiters = b.waiters[:0]
	if b.deserted {
		return // what it was granted goes back (desert)
	}
	if r.sc == acquireScript {
		over = b.pass(over)
	}
	q.reckon(r, err, granted-over, over)
	// Canceled is what we have done ourselves, when everybody had left.
	if err != nil && !answered(err) && !errors.Is(err, context.Canceled) && time.Since(b.began) > hanging {
		b.share(err)
	}
	if r.sc == acquireScript {
		if rep.numbers[1] > 0 { // it may not be told
			q.rate = rep.numbers[1]
		}
		b.plan(first)
	}
}

// holds reports whether it holds for one in line as well: not where the caller
// has gone that was refused, and this one wants less.
func (f refusal) holds(w *waiter) bool {
	return f.waiter != nil && (!f.left || w.permits >= f.permits)
}

// tell answers a waiter, which then is none of the queue's. Guarded by mu.
func (b *batch) tell(w *waiter, to answer, err error) {
	w.end(to, err)
	b.done = append(b.done, w)
}

// share tells the error of a batch that has hung to those behind it who have
// no other bound: they do not pay twice. Guarded by mu.
func (b *batch) share(err error) {
	for _, l := range []*list{&b.queue.line, &b.queue.arrivals} {
		for w := l.first; w != nil; {
			next := w.next
			if !w.bounded {
				b.tell(w, answer{}, err)
			}
			w = next
		}
	}
}

// pass gives what was granted to callers who have left meanwhile to the head of
// the line, and returns what is over then. Guarded by mu.
func (b *batch) pass(over int64) int64 {
	q := b.queue
	for w := q.line.first; w != nil && w.permits <= over; w = q.line.first {
		over -= w.permits
		b.tell(w, answer{ok: true}, nil)
		q.look()
	}
	return over
}

// plan decides when the line is probed next. If somebody in it was refused,
// those behind it are, too: it is the last look for those whose timeout had
// passed, and the head is due no earlier, unless it wants less. Otherwise the
// next batch goes on with the line. Guarded by mu.
func (b *batch) plan(first refusal) {
	q := b.queue
	if first.waiter != nil && q.line.expired > 0 {
		for w := q.line.first; w != nil; {
			next := w.next
			if w.final(b.number) && first.holds(w) {
				b.tell(w, answer{}, nil)
			}
			w = next
		}
	}
	switch head := q.line.first; {
	case head == nil || !b.probes && first.waiter == nil:
	case first.waiter == nil || head.permits < first.permits:
		q.look()
	default:
		// The next request takes as long to Redis as this one did, so it is sent
		// as long after it as Redis has said, and a little later: one that comes
		// too early is refused, and costs a round trip.
		wait, trip := microseconds(max(1, first.wait)), time.Since(b.began)
		q.known = b.began.Add(wait)
		q.due = q.known.Add(min(trip, time.Millisecond+trip/8))
		q.probe = q.probe || q.line.expired > 0
	}
}

// judge makes the answer to a caller, and the error if its permits can never
// be there.
func (q *queue) judge(s *split, permits int64) (answer, error) {
	a := s.next()
	if a.wait < 0 {
		return a, q.keys.exceeds(permits, a.limit)
	}
	return a, nil
}
