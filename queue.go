package rratelimiter

import (
	"context"
	"math"
	"sync"
	"time"
)

// forever is a timeout that does not pass.
const forever time.Duration = math.MaxInt64

// A queue is where the callers of one limiter meet, those of all RateLimiters
// of its name that a Client has handed out. It is there while somebody calls;
// a limiter that nobody uses has none.
//
// One call is under way at a time; a second one at once was measured to gain
// next to nothing, and would have to be kept in order with the first. Who comes
// alone asks Redis itself. Who comes while a call is under way is fresh: the
// next call asks for all who are (call.go). Who is refused and has time stands
// in line (line.go). The line is asked for, from its head on, when the permits
// of its head are due or something has changed (watch.go), and nobody in it is
// served before those ahead of him; but who does not wait takes what there is,
// also when others wait.
type queue struct {
	client *Client
	poke   chan struct{} // capacity one: the line or when it is due has changed

	mu       sync.Mutex
	limiter  *RateLimiter // by whose knowledge of the limiter it is asked
	keys     *limiterKeys // the limiter
	live     bool         // it is in client.queues; also guarded by client.queuesMu
	busy     bool         // a call is under way
	fresh    list         // not asked for yet
	line     list         // refused, waiting
	attended bool         // a goroutine sees to it that the line is asked for
	look     bool         // the line is to be asked for by the next call
	ending   bool         // and somebody in it has no time left
	due      time.Time    // when it is to be asked for, at the latest; zero while a call asks
	rate     int64        // last met by a call that refused the head of the line
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
	if !q.busy && q.fresh.empty() && !(waits && !q.line.empty()) {
		q.busy = true
		q.mu.Unlock()
		return q.alone(ctx, permits, timeout, numbers)
	}
	c := q.client.newCaller(permits, waits, numbers)
	if waits && !q.line.empty() && q.fresh.empty() && permits <= q.rate {
		q.line.push(c)
		if l.client.ctx.Err() != nil {
			q.close()
		}
	} else {
		q.fresh.push(c)
		q.ask()
	}
	q.mu.Unlock()
	return q.await(ctx, c, timeout)
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

// idle reports whether nobody needs the queue. Guarded by mu.
func (q *queue) idle() bool {
	return !q.busy && !q.attended && q.fresh.empty() && q.line.empty()
}

// rest takes the queue away when nobody needs it.
func (q *queue) rest() {
	q.client.queuesMu.Lock()
	defer q.client.queuesMu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.live && q.idle() {
		q.live = false
		delete(q.client.queues, q.keys.hash)
	}
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
	if r.unsure { // a first copy may still arrive
		keep := int64(0)
		if a.ok {
			keep = permits
		}
		q.limiter.withdraw(r, keep)
	}
	var c *caller
	q.mu.Lock()
	q.busy = false
	if err == nil && !a.ok && timeout > 0 {
		c = q.client.newCaller(permits, true, numbers)
		q.line.push(c)
		q.refused(a)
	}
	q.ask()
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
	if a.limit > 0 { // it may not be told
		q.rate = a.limit
	}
	q.due = time.Now().Add(microseconds(a.wait))
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

// lastLook has a caller asked for once more whose timeout has passed.
func (q *queue) lastLook(c *caller) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c.last = true
	if c.in == &q.line && !c.asked {
		q.look, q.ending = true, true
		q.ask()
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
			defer q.ask()
		}
		c.remove()
	}
	return true
}
