package rratelimiter

import (
	"context"
	"math"
	"runtime"
	"sync"
	"time"
)

// forever is a timeout that does not pass.
const forever time.Duration = math.MaxInt64

// How much one call asks for, by measurement: a run takes Redis 0.3 us, equal
// requests are one run however many they are.
const maxRuns = 256

// A queue is where the callers of one limiter meet, those of all RateLimiters
// of its name that a Client has handed out. It is there while somebody calls;
// a limiter that nobody uses has none.
//
// One call is under way at a time. Who comes alone asks Redis itself. Who comes
// while a call is under way is fresh: the next call asks for all who are. Who is
// refused and has time stands in line. The line is asked for, from its head on,
// when the permits of its head are due or something has changed, and nobody in
// it is served before those ahead of him; but who does not wait takes what
// there is, also when others wait.
//
// Calls for more than one are made by a goroutine that serves the queue while
// there is somebody fresh or in line.
type queue struct {
	client *Client
	poke   chan struct{} // capacity one: tells the goroutine to look up

	mu      sync.Mutex
	limiter *RateLimiter // by whose knowledge of the limiter it is asked
	keys    *limiterKeys // the limiter
	live    bool         // it is in client.queues; also guarded by client.queuesMu
	busy    bool         // a call is under way
	served  bool         // the goroutine is there
	fresh   list         // not asked for yet
	line    list         // refused, waiting
	look    bool         // the line is to be asked for
	due     time.Time    // when it is, at the latest
	rate    int64        // last met by a call that refused somebody
	ending  bool         // somebody in line has no time left
	walked  bool         // the call under way is the last look for those
	callers []*caller    // for whom it asks
	done    []*caller    // to whom it brings an answer
}

// acquire asks for permits until it gets them, timeout passes or ctx ends.
func (l *RateLimiter) acquire(ctx context.Context, permits int64, timeout time.Duration, numbers bool) (answer, error) {
	if err := checkPermits(permits, 1); err != nil {
		return answer{}, err
	}
	if err := l.usable(ctx); err != nil {
		return answer{}, err
	}
	waits := timeout > 0
	q := l.enter()
	switch {
	case waits && !q.line.empty() && permits <= q.rate:
		c := q.client.newCaller(permits, waits, numbers)
		q.line.push(c)
		q.mu.Unlock()
		return q.await(ctx, c, timeout)
	case q.busy || !q.fresh.empty() || (waits && !q.line.empty()):
		c := q.client.newCaller(permits, waits, numbers)
		q.fresh.push(c)
		q.call()
		q.mu.Unlock()
		return q.await(ctx, c, timeout)
	}
	q.busy = true
	q.mu.Unlock()
	return q.alone(ctx, permits, timeout, numbers)
}

// enter returns the queue of the limiter, locked.
func (l *RateLimiter) enter() *queue {
	k := l.keys.Load()
	last := l.queue.Load()
	if last != nil {
		last.mu.Lock()
		if last.live && last.keys.hash == k.hash {
			return last
		}
		last.mu.Unlock()
	}
	c := l.client
	c.queuesMu.Lock()
	defer c.queuesMu.Unlock()
	q := c.queues[k.hash]
	if q == nil {
		if q = last; q == nil || q.live {
			q = &queue{client: c, poke: make(chan struct{}, 1)}
		}
		c.queues[k.hash] = q
	}
	q.mu.Lock()
	if !q.live {
		q.limiter, q.keys, q.live, q.rate = l, k, true, 0
	}
	l.queue.Store(q)
	return q
}

// alone asks for one caller, in its own goroutine and under its ctx.
func (q *queue) alone(ctx context.Context, permits int64, timeout time.Duration, numbers bool) (answer, error) {
	start := time.Now() // monotonic: a clock that is set meanwhile does not matter
	r := q.client.newRequest(q.keys, run{permits, 1})
	r.numbers = numbers
	rep, err := q.limiter.attempt(ctx, r)
	var a answer
	if err == nil {
		a, err = q.judge(newSplit(rep, r.runs), permits)
	}
	if r.unsure && !a.ok {
		q.limiter.withdraw(r, 0)
	}
	var c *caller
	q.mu.Lock()
	q.busy = false
	if err == nil && !a.ok && timeout > 0 {
		c = q.client.newCaller(permits, true, numbers)
		q.line.push(c)
		q.refused(a)
	}
	q.call()
	idle := q.idle()
	q.mu.Unlock()
	if idle {
		q.rest()
	}
	if c == nil {
		return a, err
	}
	return q.await(ctx, c, timeout-time.Since(start))
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

// refused keeps in mind what was said to the head of the line. Guarded by mu.
func (q *queue) refused(a answer) {
	q.rate = a.limit
	q.due = time.Now().Add(milliseconds(a.wait))
}

// idle reports whether nobody needs the queue. Guarded by mu.
func (q *queue) idle() bool {
	return !q.busy && !q.served && q.fresh.empty() && q.line.empty()
}

// rest takes the queue away when nobody needs it.
func (q *queue) rest() {
	q.client.queuesMu.Lock()
	defer q.client.queuesMu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.live && q.idle() {
		q.live, q.callers, q.done = false, nil, nil
		delete(q.client.queues, q.keys.hash)
	}
}

// call sees to it that those are asked for who are fresh or in line, by the
// goroutine or, if there is none and nothing is under way that ends in another
// call, a new one. Guarded by mu.
func (q *queue) call() {
	switch {
	case q.served:
		select {
		case q.poke <- struct{}{}:
		default:
		}
	case !q.busy && !(q.fresh.empty() && q.line.empty()):
		if q.served = q.client.goBackground(q.serve); !q.served {
			q.closed()
		}
	}
}

// closed answers everybody that the Client is closed. Guarded by mu.
func (q *queue) closed() {
	for _, l := range []*list{&q.fresh, &q.line} {
		for c := l.first; c != nil; c = l.first {
			c.end(answer{}, ErrClosed)
			c.answered <- struct{}{}
		}
	}
}

// await waits for the answer to a caller, for the end of its timeout and for
// that of ctx.
func (q *queue) await(ctx context.Context, c *caller, timeout time.Duration) (answer, error) {
	if ctx.Done() == nil && (!c.waits || timeout == forever) {
		<-c.answered // takes less than a select
		return q.answer(c)
	}
	var passed <-chan time.Time
	if c.waits && timeout != forever {
		passed = c.startTimer(timeout)
	}
	for {
		select {
		case <-c.answered:
			return q.answer(c)
		case <-passed:
			q.lastLook(c)
		case <-ctx.Done():
			if q.leave(c) {
				return answer{}, ctx.Err()
			}
			<-c.answered
			return q.answer(c)
		}
	}
}

// answer returns what a caller was told, who is not needed any more then.
func (q *queue) answer(c *caller) (answer, error) {
	a, err := c.answer, c.err
	q.client.doneWith(c)
	return a, err
}

// lastLook has a caller whose timeout has passed asked for once more.
func (q *queue) lastLook(c *caller) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c.last = true
	if c.in == &q.line && !c.asked {
		q.look, q.ending = true, true
		q.call()
	}
}

// leave takes away a caller that does not wait any longer, and reports
// whether it had not been answered yet. What a call that is under way brings
// for it goes to others.
func (q *queue) leave(c *caller) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case c.asked:
		c.left = true
	case c.in == nil:
		return false
	default:
		// Who comes after it may want less, and be served at once.
		if c == q.line.first && (c.next == nil || c.next.permits < c.permits) {
			q.look = true
			defer q.call()
		}
		c.remove()
	}
	return true
}

// serve asks for all who are fresh or in line, until there is nobody.
func (q *queue) serve(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	w := watch{queue: q}
	defer w.end()
	for {
		q.mu.Lock()
		if ctx.Err() != nil {
			q.closed()
		}
		w.follow()
		if r := q.take(); r != nil {
			q.mu.Unlock()
			rep, err := q.limiter.attempt(ctx, r)
			if err != nil && ctx.Err() != nil {
				err = ErrClosed
			}
			q.mu.Lock()
			q.settle(r, rep, err)
			q.mu.Unlock()
			for _, c := range q.done { // without mu, which those who come again need
				c.answered <- struct{}{}
			}
			q.gather(len(q.done))
			continue
		}
		if q.line.empty() && (q.busy || q.fresh.empty()) {
			q.served = false
			q.mu.Unlock()
			q.rest()
			return
		}
		timer.Stop()
		if !q.busy { // otherwise we are poked when it ends
			timer.Reset(time.Until(q.due))
		}
		q.mu.Unlock()
		select {
		case <-timer.C:
			q.lookAgain()
		case <-w.changed:
			q.lookAgain()
		case <-w.events:
			q.lookAgain()
		case <-q.poke:
		case <-ctx.Done():
		}
	}
}

// gather lets those who were answered just now, so many, run before it goes on:
// they may come again at once, and then are asked for together.
func (q *queue) gather(answered int) {
	for fresh, idle := 0, 0; idle < 10 && fresh < answered; idle++ {
		runtime.Gosched()
		q.mu.Lock()
		if q.fresh.size > fresh {
			fresh, idle = q.fresh.size, 0
		}
		q.mu.Unlock()
	}
	q.mu.Lock()
	q.busy = false
	q.mu.Unlock()
}

func (q *queue) lookAgain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.look = true
}

// take makes the request of those to ask for now: the line, if it is to be
// looked at, and behind it who is fresh. It answers nil if there is nobody, or
// a call is under way. Guarded by mu.
func (q *queue) take() *request {
	if q.busy {
		return nil
	}
	if !q.line.empty() {
		q.stand()
	}
	b := batch{callers: q.callers[:0], rate: q.rate}
	if q.look {
		q.due = time.Time{}
		for c := q.line.first; c != nil; c = c.next {
			if !b.add(c) && !q.ending {
				break
			}
			c.final = c.last
		}
	}
	b.rate = math.MaxInt64
	for c := q.fresh.first; c != nil && b.add(c); c = q.fresh.first {
		c.remove()
		c.final = c.last
	}
	q.look, q.walked, q.ending, q.callers = false, q.ending, false, b.callers
	if len(b.callers) == 0 {
		return nil
	}
	q.busy = true
	r := q.client.newRequest(q.keys, b.runs...)
	r.numbers = b.numbers
	return r
}

// stand puts those at the end of the line who are fresh and would stand there
// if they were refused. Only who wants more than the rate that was met last has
// to be asked for, with all ahead of him. Guarded by mu.
func (q *queue) stand() {
	for c := q.fresh.first; c != nil; {
		next := c.next
		if c.waits && c.permits <= q.rate {
			c.remove()
			q.line.push(c)
		} else if c.waits {
			q.look = true
		}
		c = next
	}
}

// A batch is gathered for one call.
type batch struct {
	callers []*caller
	runs    []run
	permits int64
	numbers bool
	rate    int64 // more than that cannot be granted at once
	full    bool
}

// add reports whether a caller is in the batch.
func (b *batch) add(c *caller) bool {
	one := int64(1)
	if c.waits {
		one = -1
	}
	last := len(b.runs) - 1
	joins := last >= 0 && b.runs[last].permits == c.permits && (b.runs[last].many < 0) == c.waits
	b.full = b.full || len(b.callers) > 0 &&
		(b.permits > b.rate || b.permits+c.permits > maxPermits || !joins && len(b.runs) == maxRuns)
	if b.full {
		return false
	}
	if joins {
		b.runs[last].many += one
	} else {
		b.runs = append(b.runs, run{c.permits, one})
	}
	b.callers = append(b.callers, c)
	b.permits += c.permits
	b.numbers = b.numbers || c.numbers
	c.asked = true
	return true
}

// settle hands out the answers to a request. Guarded by mu.
func (q *queue) settle(r *request, rep reply, err error) {
	q.done = q.done[:0]
	s := newSplit(rep, r.runs)
	var granted, over int64
	for _, c := range q.callers {
		var a answer
		e := err
		if err == nil {
			a, e = q.judge(s, c.permits)
		}
		if a.ok {
			granted += c.permits
		}
		c.asked = false
		switch {
		case c.left:
			c.remove()
			if a.ok {
				over += c.permits
			}
		case e != nil || a.ok || !c.waits || c.final:
			q.tell(c, a, e)
		default:
			if c.in == nil {
				q.line.push(c)
			}
			if c == q.line.first {
				q.refused(a)
			}
			if c.last {
				q.look, q.ending = true, true
			}
		}
	}
	clear(q.callers)
	q.pass(r, granted, over, err)
	if q.walked && time.Now().Before(q.due) { // who has no time left, and stands behind somebody who was refused
		for c := q.line.first; c != nil; {
			next := c.next
			if c.final {
				q.tell(c, answer{}, nil)
			}
			c = next
		}
	}
}

// tell answers a caller, who is then none of the queue's. Guarded by mu.
func (q *queue) tell(c *caller, a answer, err error) {
	c.end(a, err)
	q.done = append(q.done, c)
}

// pass gives what was granted to callers who have left meanwhile to the head
// of the line, and the rest back. After an error nothing that may have been
// granted is kept. Guarded by mu.
func (q *queue) pass(r *request, granted, over int64, err error) {
	if err != nil {
		if r.unsure {
			q.limiter.withdraw(r, 0)
		}
		return
	}
	for c := q.line.first; c != nil && c.permits <= over; c = q.line.first {
		over -= c.permits
		q.tell(c, answer{ok: true}, nil)
		q.look = true
	}
	if over > 0 {
		q.limiter.withdraw(r, granted-over)
	}
}
