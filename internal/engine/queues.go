package engine

import (
	"context"
	"sync"
	"time"
)

// queues holds the queues of an Engine: one for each limiter in use. A limiter that is not in
// use holds no memory, because a process may touch a million names.
type queues struct {
	engine *Engine

	mu     sync.Mutex
	byHash map[string]*queue // by hash; guarded by mu

	spare   sync.Pool // of *queue, not in use
	waiters sync.Pool // of *waiter
}

// enter returns the queue of a limiter, locked.
func (qs *queues) enter(l *Limiter) *queue {
	if last := l.queue.Load(); last != nil {
		last.mu.Lock()
		if last.inUse && last.limiter.Hash == l.Hash {
			return last
		}
		last.mu.Unlock() // it may be another limiter's by now
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.lock(l)
	l.queue.Store(q)
	return q
}

// locked returns the queue of a limiter, locked. Guarded by mu.
func (qs *queues) lock(l *Limiter) *queue {
	q := qs.byHash[l.Hash]
	if q == nil {
		q = qs.newQueue()
		qs.byHash[l.Hash] = q
	}
	q.mu.Lock()
	if !q.inUse {
		q.limiter, q.inUse, q.turns = l, true, firstTurns(qs.engine)
		q.lastReply, q.portion = lastReply{}, portion{}
		q.line.reset()
		q.releases.lastBatchReleased = false
	}
	return q
}

// newQueue returns a queue, which may have been another limiter's.
func (qs *queues) newQueue() *queue {
	q, ok := qs.spare.Get().(*queue)
	if !ok {
		q = &queue{engine: qs.engine}
		q.line.wake, q.line.recordsWaits = make(chan struct{}, 1), qs.engine.config.Observed
		q.batch = &batch{queue: q, waiting: notUnderWay}
	}
	return q
}

// retire takes a queue away when nobody needs it: those who have just been served may come again.
func (qs *queues) retire(q *queue) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.inUse || !q.idle() || q.retireScheduled {
		return
	}
	if rest := q.portion.lingerFor(time.Now()); rest > 0 {
		q.retireScheduled = true
		time.AfterFunc(rest, func() {
			q.mu.Lock()
			q.retireScheduled = false
			q.mu.Unlock()
			qs.retire(q)
		})
		return
	}
	q.inUse = false
	delete(qs.byHash, q.limiter.Hash)
	if cap(q.batch.waiters) <= maxRuns { // what a burst has needed is not kept
		qs.spare.Put(q)
	}
}

// of returns the queue of a limiter, nil if it is not in use.
func (qs *queues) of(l *Limiter) *queue {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return qs.byHash[l.Hash]
}

// all returns the queues in use.
func (qs *queues) all() []*queue {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	all := make([]*queue, 0, len(qs.byHash))
	for _, q := range qs.byHash {
		all = append(all, q)
	}
	return all
}

// newWaiter returns a waiter, which may have been another caller's. Channel and
// timer are what would cost more than all the rest.
func (qs *queues) newWaiter(ctx context.Context, wanted Want) *waiter {
	w, ok := qs.waiters.Get().(*waiter)
	if !ok {
		w = &waiter{ready: make(chan struct{}, 1)}
	}
	w.ctx, w.Want = ctx, wanted
	w.canLeave = ctx.Done() != nil || w.Timed() || w.Budget > 0
	if w.bounded = w.Timed() || w.Budget > 0; !w.bounded && w.canLeave {
		_, w.bounded = ctx.Deadline()
	}
	if w.Budget > 0 {
		w.enteredAt = time.Now()
	}
	return w
}

// recycle takes back a waiter that was answered. One that has left is not: a
// batch may still know it.
func (qs *queues) recycle(w *waiter) {
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.state != answered {
		return
	}
	*w = waiter{ready: w.ready, timer: w.timer}
	qs.waiters.Put(w)
}
