package engine

import (
	"context"
	"sync"
	"time"

	"github.com/redisson-go/rratelimiter/internal/turns"
)

// queues holds the queues of an Engine: one for each limiter in use. An unused
// limiter takes no memory, because a process may touch a million names.
type queues struct {
	engine *Engine

	mu     sync.Mutex
	byHash map[string]*queue // guarded by mu

	spare   sync.Pool // of unused *queue
	waiters sync.Pool // of *waiter
}

// enter returns the queue of a limiter, locked. A Limiter remembers its last
// queue, so that a busy one does not lock qs.mu for each call.
func (qs *queues) enter(l *Limiter) *queue {
	if last := l.queue.Load(); last != nil {
		last.mu.Lock()
		if last.inUse && last.limiter.Hash == l.Hash {
			return last
		}
		last.mu.Unlock() // retired, and perhaps reused for another limiter
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.lock(l)
	l.queue.Store(q)
	return q
}

// lock returns the queue of a limiter, locked. Guarded by mu, without which
// retire could delete the queue between the lookup and its lock.
func (qs *queues) lock(l *Limiter) *queue {
	q := qs.byHash[l.Hash]
	if q == nil {
		q = qs.newQueue()
		qs.byHash[l.Hash] = q
	}
	// The lock is taken under qs.mu, in the order that all code here keeps:
	// otherwise retire could delete the queue in between.
	q.mu.Lock()
	if !q.inUse {
		q.limiter, q.inUse = l, true
		q.lastReply, q.portion = lastReply{}, nil
		q.line.schedule = turns.Schedule{}
		q.releases.lastBatchReleased = false
	}
	return q
}

// newQueue returns a new queue, or one that another limiter has used. lock resets
// the state of that limiter.
func (qs *queues) newQueue() *queue {
	q, ok := qs.spare.Get().(*queue)
	if !ok {
		q = &queue{engine: qs.engine}
		q.line.wake, q.line.recordsWaits = make(chan struct{}, 1), qs.engine.config.Observed
		q.batch = &batch{queue: q, waiting: notUnderWay}
	}
	return q
}

// retire deletes a queue that is idle. While waiters share the limit with other
// processes, callers that were just served often come again, and the queue
// stays for a while with the portion of this process.
func (qs *queues) retire(q *queue) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.inUse || !q.idle() || q.retireScheduled {
		return
	}
	// The timer calls retire again, and the queue is not deleted if a caller has
	// come meanwhile.
	if q.portion != nil {
		if rest := q.portion.LingerFor(time.Now()); rest > 0 {
			q.retireScheduled = true
			time.AfterFunc(rest, func() {
				q.mu.Lock()
				q.retireScheduled = false
				q.mu.Unlock()
				qs.retire(q)
			})
			return
		}
	}
	q.inUse = false
	delete(qs.byHash, q.limiter.Hash)
	if cap(q.batch.waiters) <= maxRuns { // let the memory of a burst go
		qs.spare.Put(q)
	}
}

// of returns the queue of a limiter, nil if it has none.
func (qs *queues) of(l *Limiter) *queue {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return qs.byHash[l.Hash]
}

// all returns the queues in use. The caller locks them one by one, not under qs.mu, which
// would delay each call of the Client.
func (qs *queues) all() []*queue {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	all := make([]*queue, 0, len(qs.byHash))
	for _, q := range qs.byHash {
		all = append(all, q)
	}
	return all
}

// newWaiter returns a new or reused waiter. Its channel and timer are the
// expensive parts of a call in Go.
func (qs *queues) newWaiter(ctx context.Context, wanted Want) *waiter {
	w, ok := qs.waiters.Get().(*waiter)
	if !ok {
		w = &waiter{ready: make(chan struct{}, 1)}
	}
	w.ctx, w.Want, w.replaced = ctx, wanted, false
	w.canLeave = ctx.Done() != nil || w.Timed() || w.Budget > 0
	if w.bounded = w.Timed() || w.Budget > 0; !w.bounded && w.canLeave {
		_, w.bounded = ctx.Deadline()
	}
	if w.Budget > 0 || w.Timed() {
		w.enteredAt = time.Now()
	}
	w.staysForReply = !w.canLeave
	return w
}

// recycle puts an answered waiter into the pool. A waiter that has left stays
// out: a batch may still have a pointer to it.
func (qs *queues) recycle(w *waiter) {
	for _, timer := range []*time.Timer{w.timer, w.budgetTimer} {
		if timer != nil {
			timer.Stop()
		}
	}
	if w.state != answered {
		return
	}
	*w = waiter{ready: w.ready, timer: w.timer, budgetTimer: w.budgetTimer}
	qs.waiters.Put(w)
}
