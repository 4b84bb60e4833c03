package rratelimiter

import (
	"context"
	"runtime"
	"time"
)

// maxRuns is how many runs a call asks for. Each takes Redis 0.3 us; requests
// that are equal are one, however many they are.
const maxRuns = 256

// A call asks for many callers at once, again and again while there are any.
type call struct {
	queue   *queue
	callers []*caller // for whom it asks
	done    []*caller // to whom it brings an answer

	// What is gathered for a request.
	runs    []run
	permits int64
	numbers bool
	walked  bool // it is the last look for those in line without time
}

// ask sees to it that a call asks for those who are fresh, and for the line if
// it is to be looked at, and that somebody attends to the line. Guarded by mu.
func (q *queue) ask() {
	if !q.line.empty() && !q.attended {
		if q.attended = q.client.goBackground(q.attend); !q.attended {
			q.close()
		}
	}
	if needed := !q.fresh.empty() || q.look && !q.line.empty(); needed && !q.busy {
		q.busy = true
		if !q.client.goBackground(func(ctx context.Context) { (&call{queue: q}).run(ctx) }) {
			q.busy = false
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

// close answers everybody that the Client is closed, but those a call is
// asking for, who get its answer. Guarded by mu.
func (q *queue) close() {
	for _, l := range []*list{&q.fresh, &q.line} {
		for c := l.first; c != nil; {
			next := c.next
			if !c.asked {
				c.end(answer{}, ErrClosed)
				c.answered <- struct{}{}
			}
			c = next
		}
	}
}

func (a *call) run(ctx context.Context) {
	q := a.queue
	for {
		q.mu.Lock()
		if ctx.Err() != nil {
			q.close()
		}
		r := a.take()
		if r == nil {
			q.busy = false
			q.ask()
			q.mu.Unlock()
			q.rest()
			return
		}
		q.mu.Unlock()
		rep, err := q.limiter.attempt(ctx, r)
		if err != nil && ctx.Err() != nil {
			err = ErrClosed
		}
		q.mu.Lock()
		a.settle(r, rep, err)
		q.mu.Unlock()
		for _, c := range a.done { // without mu, which those who come again need
			c.answered <- struct{}{}
		}
		a.gather()
	}
}

// gather lets those who were answered just now run before it goes on: they may
// come again at once, and then are asked for together.
func (a *call) gather() {
	for fresh, idle := 0, 0; idle < 10 && fresh < len(a.done); idle++ {
		runtime.Gosched()
		a.queue.mu.Lock()
		if a.queue.fresh.size > fresh {
			fresh, idle = a.queue.fresh.size, 0
		}
		a.queue.mu.Unlock()
	}
}

// take makes the request of those to ask for now: the line, if it is to be
// looked at, and behind it who is fresh. It answers nil if there is nobody.
// Guarded by mu.
func (a *call) take() *request {
	q := a.queue
	a.callers, a.runs, a.permits, a.numbers, a.walked = a.callers[:0], nil, 0, false, false
	if !q.line.empty() {
		q.stand()
	}
	if q.look {
		// More than the rate cannot be granted at once.
		for c := q.line.first; c != nil; c = c.next {
			if (a.permits > q.rate || !a.add(c)) && !q.ending {
				break
			}
			c.final = c.last
		}
		a.walked = q.ending
		q.look, q.ending, q.due = false, false, time.Time{}
	}
	for c := q.fresh.first; c != nil && a.add(c); c = q.fresh.first {
		c.remove()
		c.final = c.last
	}
	if len(a.callers) == 0 {
		return nil
	}
	r := q.client.newRequest(q.keys, a.runs...)
	r.numbers = a.numbers
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

// add reports whether there is room for a caller in the request.
func (a *call) add(c *caller) bool {
	one := int64(1)
	if c.waits {
		one = -1
	}
	last := len(a.runs) - 1
	joins := last >= 0 && a.runs[last].permits == c.permits && (a.runs[last].many < 0) == c.waits
	switch {
	case a.permits > maxPermits-c.permits:
		return false
	case joins:
		a.runs[last].many += one
	case len(a.runs) == maxRuns:
		return false
	default:
		a.runs = append(a.runs, run{c.permits, one})
	}
	a.callers = append(a.callers, c)
	a.permits += c.permits
	a.numbers = a.numbers || c.numbers
	c.asked = true
	return true
}

// settle finds the answers to those it has asked for. Guarded by mu.
func (a *call) settle(r *request, rep reply, err error) {
	q := a.queue
	a.done = a.done[:0]
	s := newSplit(rep, r.runs)
	var granted, over int64
	plain := err == nil && rep.answers == nil && !r.numbers // everybody gets the same
	for _, c := range a.callers {
		to, e := answer{ok: plain}, err
		if err == nil && !plain {
			to, e = q.judge(s, c.permits)
		}
		if to.ok {
			granted += c.permits
		}
		c.asked = false
		switch {
		case c.left:
			c.remove()
			if to.ok {
				over += c.permits
			}
		case e != nil || to.ok || !c.waits || c.final:
			a.tell(c, to, e)
		default:
			a.refuse(c, to)
		}
	}
	clear(a.callers)
	a.pass(r, granted, over)
	if a.walked && time.Now().Before(q.due) {
		a.dismiss()
	}
	q.look = !q.line.empty() && (q.look || q.due.IsZero()) // all were granted who were asked for, or none for an error
	q.ask()
}

// tell answers a caller, who is then none of the queue's. Guarded by mu.
func (a *call) tell(c *caller, to answer, err error) {
	c.end(to, err)
	a.done = append(a.done, c)
}

// refuse has a caller stand in line. Guarded by mu.
func (a *call) refuse(c *caller, to answer) {
	q := a.queue
	if c.in == nil {
		q.line.push(c)
	}
	if c == q.line.first {
		q.refused(to)
	}
	if c.last {
		q.look, q.ending = true, true
	}
}

// dismiss answers those in line who have no time left and stand so far behind
// somebody who was refused that they were not asked for. Guarded by mu.
func (a *call) dismiss() {
	for c := a.queue.line.first; c != nil; {
		next := c.next
		if c.final {
			a.tell(c, answer{}, nil)
		}
		c = next
	}
}

// pass gives what was granted to callers who have left meanwhile to the head
// of the line, and the rest back. Of a request that was sent twice nothing is
// kept that nobody was told of: after an error, or when the first copy arrives
// late. Guarded by mu.
func (a *call) pass(r *request, granted, over int64) {
	q := a.queue
	for c := q.line.first; c != nil && c.permits <= over; c = q.line.first {
		over -= c.permits
		a.tell(c, answer{ok: true}, nil)
		q.look = true
	}
	if over > 0 {
		q.limiter.giveBack(r, over)
	}
	if r.unsure {
		q.limiter.withdraw(r, granted)
	}
}
