package rratelimiter

import "time"

// A caller is one call of TryAcquire, Acquire or Allow that does not ask Redis
// itself.
type caller struct {
	permits int64
	waits   bool // it has a timeout, and so stands in line when it is refused
	numbers bool // it wants to know more than yes or no

	// Guarded by the queue's mu, as the list is.
	in         *list
	next, prev *caller
	asked      bool // a call about it is under way
	last       bool // its timeout has passed: one more look
	final      bool // that look is under way
	left       bool // it has gone while a call about it was under way

	// Set before it is answered.
	answer answer
	err    error

	answered chan struct{} // capacity one
	timer    *time.Timer   // for its timeout
}

// newCaller returns a caller, which may have been one before. Channel and
// timer are what would cost more than all the rest.
func (c *Client) newCaller(permits int64, waits, numbers bool) *caller {
	cl, ok := c.callers.Get().(*caller)
	if !ok {
		cl = &caller{answered: make(chan struct{}, 1)}
	}
	cl.permits, cl.waits, cl.numbers = permits, waits, numbers
	return cl
}

// startTimer returns a channel that says when the timeout has passed.
func (c *caller) startTimer(timeout time.Duration) <-chan time.Time {
	if c.timer == nil {
		c.timer = time.NewTimer(timeout)
	} else {
		c.timer.Reset(timeout)
	}
	return c.timer.C
}

// doneWith takes back a caller that was answered, and which no queue knows any
// more.
func (c *Client) doneWith(cl *caller) {
	if cl.timer != nil {
		cl.timer.Stop()
	}
	*cl = caller{answered: cl.answered, timer: cl.timer}
	c.callers.Put(cl)
}

// A list holds callers, first come first served. One leaves from wherever it
// stands.
type list struct {
	first, end *caller
	size       int
}

func (l *list) empty() bool { return l.first == nil }

func (l *list) push(c *caller) {
	l.size++
	c.in, c.prev, c.next = l, l.end, nil
	if l.end == nil {
		l.first = c
	} else {
		l.end.next = c
	}
	l.end = c
}

// end takes a caller out of its list, with its answer.
func (c *caller) end(a answer, err error) {
	c.remove()
	c.answer, c.err = a, err
}

// remove takes a caller out of the list it is in, if any.
func (c *caller) remove() {
	l := c.in
	if l == nil {
		return
	}
	l.size--
	if c.prev == nil {
		l.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.end = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.in, c.prev, c.next = nil, nil, nil
}
