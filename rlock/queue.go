package rlock

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// A queue holds the waiters of this process for one fair lock. Their order is that of the queue in Redis,
// which also has the waiters of other processes. One goroutine renews all places and checks whose turn it
// is: a message may be lost, and an expired lease sends none.
type queue struct {
	keys    *keys
	waiters []*queued // like all fields, guarded by the mu of the Client
	looked  time.Time // when the places were last renewed, or the queue was made
	due     time.Time // when the goroutine looks next

	// sooner signals a change of due or waiters. It has a capacity of one.
	sooner chan struct{}
}

// mostKept bounds the places that a script call renews.
const mostKept = 1000

// enterQueue adds a caller to the queue of its lock and returns the queue, nil if the Client is closed. c.mu
// is held.
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

// lastQueued returns the last caller in the queue of a lock in this process, nil if there is none.
func (c *Client) lastQueued(k *keys) *queued {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.queues[k.Hash]; q != nil && len(q.waiters) > 0 {
		return q.waiters[len(q.waiters)-1]
	}
	return nil
}

// lookIn schedules the next look in hint ms, or earlier if the places have to be renewed before. A negative
// hint is unknown. c.mu is held.
func (q *queue) lookIn(hint int64) {
	q.due = q.looked.Add(placeFor / 3)
	if hint >= 0 {
		if due := time.Now().Add(untilAfter(hint)); due.Before(q.due) {
			q.due = due
		}
	}
	signal(q.sooner)
}

// keep serves a queue until it has no waiters.
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

// next returns the time of the next look. If the queue has no waiters, more is false and keep ends.
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

// look renews the places, and wakes the callers that should ask for the lock.
func (q *queue) look(ctx context.Context) {
	c := q.keys.client
	sent := time.Now()
	c.mu.Lock()
	waiters := slices.Clone(q.waiters)
	c.mu.Unlock()
	var hint, first int64
	var asks []*queued
	var err error
	for some := range slices.Chunk(waiters, mostKept) {
		var reply redisx.Reply
		if reply, err = q.renew(ctx, some); err != nil {
			break
		}
		hint, first = reply.At(0), reply.At(1)
		for _, i := range reply.From(2) {
			if i > 0 && i <= int64(len(some)) {
				asks = append(asks, some[i-1])
			}
		}
	}
	if _, ended := c.owners.ended(first); err == nil && ended {
		(&Hold{keys: q.keys}).endAgain(ctx, first)
		hint = again.Milliseconds() // there may be more of them
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	q.looked = sent
	switch {
	case err == nil:
		q.lookIn(hint)
	case redis.IsTryAgainError(err):
		q.due = time.Now().Add(again)
	default: // each caller asks, and gets its own error or the lock
		q.due, asks = time.Now().Add(tidyRarely), waiters
	}
	for _, w := range asks {
		signal(w.look)
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

// abandon gives up the places of all waiters when the Client is closed.
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
