package rratelimiter

import "time"

// enter returns the queue of the limiter, locked.
func (l *RateLimiter) enter() *queue {
	k := l.keys.Load()
	if last := l.queue.Load(); last != nil {
		last.mu.Lock()
		if last.live && last.keys.Hash == k.Hash {
			return last
		}
		last.mu.Unlock() // it may be another limiter's by now
	}
	k.client.queuesMu.Lock()
	defer k.client.queuesMu.Unlock()
	q := k.client.lockedQueue(k)
	l.queue.Store(q)
	return q
}

// lockedQueue returns the queue of a limiter, locked. Guarded by queuesMu.
func (c *Client) lockedQueue(k *limiterKeys) *queue {
	q := c.queues[k.Hash]
	if q == nil {
		q = c.newQueue()
		c.queues[k.Hash] = q
	}
	q.mu.Lock()
	if !q.live {
		q.keys, q.live, q.turns = k, true, c.firstTurns()
		q.rate, q.cause, q.known, q.due, q.heard = 0, nil, time.Time{}, time.Time{}, time.Time{}
		q.probe, q.gave, q.portion = probeWhenDue, false, portion{}
	}
	return q
}

// newQueue returns a queue, which may have been another limiter's.
func (c *Client) newQueue() *queue {
	q, ok := c.spare.Get().(*queue)
	if !ok {
		q = &queue{client: c, poke: make(chan struct{}, 1)}
		q.batch = &batch{queue: q, waiting: notUnderWay}
	}
	return q
}

// idle reports whether nobody needs the queue. Guarded by mu.
func (q *queue) idle() bool {
	return !q.busy && !q.attended && q.deserted == 0 && q.withdrawal == nil && !q.parked &&
		q.reserved == 0 && q.arrivals.empty() && q.returns.empty() && q.line.empty()
}

// retire takes the queue away when nobody needs it: those who have just been served may come again.
func (q *queue) retire() {
	q.client.queuesMu.Lock()
	defer q.client.queuesMu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.live || !q.idle() || q.lingers {
		return
	}
	if rest := q.portion.rest(time.Now()); rest > 0 {
		q.lingers = true
		time.AfterFunc(rest, func() {
			q.mu.Lock()
			q.lingers = false
			q.mu.Unlock()
			q.retire()
		})
		return
	}
	q.live = false
	delete(q.client.queues, q.keys.Hash)
	if cap(q.batch.waiters) <= maxRuns { // what a burst has needed is not kept
		q.client.spare.Put(q)
	}
}
