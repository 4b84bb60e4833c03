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
)

// A batch is the requests that one script call judges. A queue has one, which
// it uses again and again.
type batch struct {
	queue *queue

	// Guarded by the queue's mu.
	number  int64     // counts the batches of the queue
	waiters []*waiter // those it judges, in their order
	waiting int       // those of them that have not left
	probes  bool      // it includes the line
	cancel  func()    // ends its call; nil where a caller leads it
	began   time.Time

	// What is gathered for a request.
	runs    []run
	permits int64
	numbers bool

	done []*waiter // to whom it delivers
}

// lead makes one batch in the goroutine of a caller, and leaves the next ones
// to others.
func (b *batch) lead(ctx context.Context) {
	q := b.queue
	q.mu.Lock()
	b.cancel = nil
	r := b.take()
	q.mu.Unlock()
	if r != nil && b.ask(batchContext{ctx, ctx, q}, r) {
		return
	}
	q.mu.Lock()
	idle := q.pause()
	q.mu.Unlock()
	if idle {
		q.rest()
	}
}

// run makes batches as long as they are wanted. caller is the context of the
// one that has arrived first: if it is alone, its batch ends with it. Where
// nobody has just arrived, it is that of the Client.
func (b *batch) run(closing, caller context.Context) {
	q := b.queue
	for {
		q.mu.Lock()
		if closing.Err() != nil {
			q.close()
		}
		r := b.take()
		if r == nil {
			idle := q.pause()
			q.mu.Unlock()
			if idle {
				q.rest()
			}
			return
		}
		ctx := caller
		if b.cancel = nil; caller == closing || len(b.waiters) > 1 || b.waiters[0].waits {
			ctx, b.cancel = context.WithCancel(closing)
		}
		cancel := b.cancel
		q.mu.Unlock()
		paused := b.ask(batchContext{ctx, caller, q}, r)
		if cancel != nil {
			cancel()
		}
		if paused {
			return
		}
		b.gather()
		caller = closing
	}
}

// A batchContext is the context of a batch. It has the values of the caller that
// began it, for hooks of go-redis that look for the trace it belongs to.
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

// take makes the request of the next batch: the line, if it is to be probed,
// and behind it the arrivals. It returns nil if there is nobody. Guarded by mu.
func (b *batch) take() *request {
	q := b.queue
	if !q.wanted() {
		return nil
	}
	b.runs, b.permits, b.numbers = nil, 0, false
	b.probes, q.probe = q.probe && !q.line.empty(), false
	if b.probes {
		// More than the rate cannot be granted at once.
		for w := q.line.first; w != nil && (q.rate == 0 || b.permits <= q.rate) && b.add(w); w = w.next {
		}
		q.due = time.Time{}
	}
	for w := q.arrivals.first; w != nil && b.add(w); w = q.arrivals.first {
		w.remove()
	}
	b.number++
	b.waiting, b.began = len(b.waiters), time.Now()
	r := q.client.newRequest(q.keys, b.runs...)
	r.numbers = b.numbers
	return r
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
// whether the queue paused, because nobody came meanwhile: then the batch is
// another's by now.
func (b *batch) ask(ctx context.Context, r *request) (paused bool) {
	q := b.queue
	rep, err := q.limiter.attempt(ctx, r)
	q.mu.Lock()
	switch {
	case err != nil && q.client.ctx.Err() != nil:
		err = ErrClosed
	case err == nil || ctx.Err() == nil || !errors.Is(err, ctx.Err()): // otherwise Redis has said nothing
		q.cause = err
	}
	b.settle(r, rep, err)
	if len(b.done) == 1 && !q.wanted() {
		// One caller alone has its answer when all else is done, so that its
		// next call does not wait for what is left of this one.
		w, idle := b.done[0], q.pause()
		q.mu.Unlock()
		if idle {
			q.rest()
		}
		w.answered <- struct{}{}
		return true
	}
	q.mu.Unlock()
	for _, w := range b.done { // without mu, which those who come again need
		w.answered <- struct{}{}
	}
	return false
}

// pause ends a series of batches, and reports whether the queue is idle then.
// Guarded by mu.
func (q *queue) pause() (idle bool) {
	q.busy = false
	q.start(q.client.ctx)
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
	b.done = b.done[:0]
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
		case e != nil || to.ok || !w.waits || w.final(b.number) && !first.left():
			b.tell(w, to, e)
		case w.in == nil:
			w.refused = true
			q.line.push(w)
		}
	}
	clear(b.waiters)
	b.waiters = b.waiters[:0]
	if rep.numbers[1] > 0 { // it may not be told
		q.rate = rep.numbers[1]
	}
	if err != nil && !answered(err) && time.Since(b.began) > hanging {
		b.share(err)
	}
	b.pass(r, granted, over)
	b.plan(first)
	q.start(q.client.ctx)
}

// left reports whether the caller has gone that was refused first.
func (f refusal) left() bool { return f.waiter != nil && f.waiter.left }

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

// pass gives what was granted to callers who have left meanwhile to the head
// of the line, and the rest back. Of a request that was sent twice nothing is
// kept that nobody was told of: after an error, or when the first copy arrives
// late. Guarded by mu.
func (b *batch) pass(r *request, granted, over int64) {
	q := b.queue
	for w := q.line.first; w != nil && w.permits <= over; w = q.line.first {
		over -= w.permits
		b.tell(w, answer{ok: true}, nil)
	}
	if over > 0 {
		q.limiter.giveBack(r, over)
	}
	if r.unsure {
		q.limiter.withdraw(r, granted)
	}
}

// plan decides when the line is probed next. If somebody in it was refused,
// those behind it are, too: it is the last look for those whose timeout had
// passed, and the head is due no earlier, unless it wants less. Otherwise the
// next batch goes on with the line. Guarded by mu.
func (b *batch) plan(first refusal) {
	q := b.queue
	refused := first.waiter != nil && !first.left()
	if refused && q.line.expired > 0 {
		for w := q.line.first; w != nil; {
			next := w.next
			if w.final(b.number) {
				b.tell(w, answer{}, nil)
			}
			w = next
		}
	}
	switch head := q.line.first; {
	case head == nil || !b.probes && first.waiter == nil:
	case q.line.expired > 0 || !refused || head.permits < first.permits:
		q.probe = true
	default:
		q.due = time.Now().Add(microseconds(max(1, first.wait)))
		q.known = q.due
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
