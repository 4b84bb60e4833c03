package rratelimiter

import (
	"context"
	"fmt"
	"time"
)

// attend probes the line when it is due or something has changed, until it is
// empty. That something has changed is a hint: without it the line is probed
// when it is due.
func (q *queue) attend(ctx context.Context) {
	changed, events, unwatch := q.watch()
	defer unwatch()
	timer := time.NewTimer(0)
	defer timer.Stop()
	closed := ctx.Done()
	for {
		q.mu.Lock()
		if q.client.closed() {
			q.close()
		}
		if q.line.empty() {
			q.attended = false
			q.mu.Unlock()
			q.retire()
			return
		}
		timer.Stop()
		if q.probe == probeWhenDue {
			timer.Reset(time.Until(q.due))
		}
		q.mu.Unlock()
		select {
		case <-timer.C:
			if !q.giveWay(ctx, changed) {
				continue
			}
		case <-changed:
		case <-events:
		case <-q.poke:
			continue
		case <-closed:
			closed = nil // the line is empty, or will be
			continue
		}
		q.mu.Lock()
		q.changed()
		q.start()
		q.mu.Unlock()
	}
}

// watch subscribes to changes: by Go, which publishes that it has given permits back
// or set a rate; and by others, if the server sends keyspace notifications. Redisson
// sets the value when it gives permits back or keeps state, and deletes the value
// when it sets a rate.
func (q *queue) watch() (changed, events <-chan struct{}, end func()) {
	q.mu.Lock()
	hub, channel, value := q.client.hub, q.keys.Changed, q.keys.Pairs[q.keys.believed()].Value
	q.mu.Unlock()
	changed, endChanged := hub.Subscribe(channel)
	ofValue := fmt.Sprintf("__keyspace@%d__:%s", q.client.runner.DB, value)
	events, endEvents := hub.Events(ofValue, "set", "del")
	return changed, events, func() {
		endChanged()
		endEvents()
	}
}
