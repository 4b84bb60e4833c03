package rlock

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// A queue is who waits for one fair lock in this process. The order is that of the queue
// in Redis, which has those of other processes, too. One goroutine renews the places of
// all, and looks whether it is somebody's turn: the message that tells may be lost, and
// when a lease runs out there is none.
type queue struct {
	keys    *keys
	waiters []*queued // guarded by the mu of the Client, as all of it
	looked  time.Time // when the places were renewed, or should have been
	due     time.Time // the goroutine looks by then

	// sooner says that due or waiters have changed. It has a capacity of one.
	sooner chan struct{}
}

// mostKept is how many places a script call renews.
const mostKept = 1000

// enterQueue returns the queue of the lock for which a caller waits, nil if the Client is
// closed. c.mu is held.
func (c *Client) enterQueue(w *queued) *queue {
	k := w.hold.keys
	q := c.queues[k.Hash]
	if q == nil {
		q = &queue{keys: k, looked: time.Now(), sooner: make(chan struct{}, 1)}
		if !c.host.Go(q.keep) {
			return nil
		}
		c.queues[k.Hash] = q
	}
	q.waiters = append(q.waiters, w)
	return q
}

// lastQueued returns who was last to enter the queue of a lock in this process, nil if
// nobody waits.
func (c *Client) lastQueued(k *keys) *queued {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.queues[k.Hash]; q != nil && len(q.waiters) > 0 {
		return q.waiters[len(q.waiters)-1]
	}
	return nil
}

// lookIn has the queue look when a hint of a script says so: in ms, or less than 0 for
// when the places are to be renewed. c.mu is held.
func (q *queue) lookIn(hint int64) {
	q.due = q.looked.Add(placeFor / 3)
	if hint >= 0 {
		if due := time.Now().Add(untilAfter(hint)); due.Before(q.due) {
			q.due = due
		}
	}
	q.poke()
}

// poke has the goroutine see what has changed.
func (q *queue) poke() {
	select {
	case q.sooner <- struct{}{}:
	default: // it is about to see it
	}
}

// keep looks after a queue until nobody waits in it.
func (q *queue) keep(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due, more := q.next()
		if !more {
			return
		}
		timer.Reset(time.Until(due))
		select {
		case <-q.sooner:
		case <-timer.C:
			q.look(ctx)
		case <-ctx.Done():
			q.abandon(ctx)
			return
		}
	}
}

// next returns when to look next. more is false if nobody waits: then keep ends.
func (q *queue) next() (due time.Time, more bool) {
	c := q.keys.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(q.waiters) == 0 {
		delete(c.queues, q.keys.Hash)
		return due, false
	}
	return q.due, true
}

// look renews the places, and tells those that should ask for the lock.
func (q *queue) look(ctx context.Context) {
	c := q.keys.client
	sent := time.Now()
	c.mu.Lock()
	waiters := slices.Clone(q.waiters)
	c.mu.Unlock()
	var hint int64
	var asks []*queued
	var err error
	for some := range slices.Chunk(waiters, mostKept) {
		var reply redisx.Reply
		if reply, err = q.renew(ctx, some); err != nil {
			break
		}
		hint = reply.At(0)
		for _, i := range reply.From(1) {
			if i > 0 && i <= int64(len(some)) {
				asks = append(asks, some[i-1])
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	q.looked = sent
	switch {
	case err == nil:
		q.lookIn(hint)
	case redis.IsTryAgainError(err):
		q.due = time.Now().Add(again)
	default: // each of them gets its own error, or the lock
		q.due, asks = time.Now().Add(tidyRarely), waiters
	}
	for _, w := range asks {
		w.tell()
	}
}

// renew renews the places of some waiters.
func (q *queue) renew(ctx context.Context, waiters []*queued) (redisx.Reply, error) {
	k := q.keys
	call := redisx.Call{
		Script: fairKeepScript, Keys: k.fairKeys(), Args: []any{k.sharded(), placeFor.Milliseconds()},
	}
	for _, w := range waiters {
		call.Args = append(call.Args, w.hold.owner)
	}
	reply, _, err := k.client.host.Runner.Run(ctx, &call)
	return reply, err
}

// abandon leaves the queue in Redis for all that wait: the Client is closed.
func (q *queue) abandon(ctx context.Context) {
	c := q.keys.client
	c.mu.Lock()
	var calls []*redisx.Call
	for _, w := range q.waiters {
		call := w.hold.fairUnlockCall()
		calls = append(calls, &call)
	}
	c.mu.Unlock()
	c.host.Runner.RunAll(context.WithoutCancel(ctx), calls)
}
