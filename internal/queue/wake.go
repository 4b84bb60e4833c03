package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/redisson-go/rratelimiter/internal/request"
)

// attend probes the line when it is due or something has changed, until the line
// is empty. A change is a hint: if the message is lost, the line is probed when
// it is due.
func (q *queue) attend(ctx context.Context) {
	// Subscribe first. A change between a look at the line and the subscription
	// would go unnoticed until the line is due.
	limiterChanged, events, unwatch := q.watch()
	defer unwatch()
	timer := time.NewTimer(0)
	defer timer.Stop()
	closed := ctx.Done()
	for {
		q.lock()
		if q.registry.Pool.Closed() {
			q.close()
		}
		if q.line.size == 0 {
			q.line.attended = false
			// The goroutine leaves under mu: a waiter that joins the line after
			// this starts another one (queue.start).
			q.unlock()
			return
		}
		timer.Stop()
		if q.line.schedule.Timed() {
			timer.Reset(time.Until(q.line.schedule.DueAt()))
		}
		q.unlock()
		select {
		case <-timer.C:
		case <-limiterChanged:
		case <-events:
		case <-q.line.wake:
			continue
		case <-closed:
			closed = nil // the batch under way answers its waiters, and then the line is empty
			continue
		}
		q.lock()
		q.line.schedule.NoteChange()
		q.start()
		q.unlock()
	}
}

// watch subscribes to changes. Go publishes its own releases and rates. For other
// clients it needs keyspace notifications, if the server sends them: Redisson
// sets the value when it gives permits back or keeps state, and deletes the value
// when it sets a rate.
func (q *queue) watch() (limiterChanged, events <-chan struct{}, end func()) {
	q.lock()
	keys, typ := q.target.Keys(), q.target.Type()
	q.unlock()
	limiterChanged, endChanged := q.registry.Hub.Subscribe(keys.Changed)
	ofValue := fmt.Sprintf("__keyspace@%d__:%s", q.registry.Runner.DB, keys.Pairs[typ].Value)
	events, endEvents := q.registry.Hub.Events(ofValue, "set", "del")
	return limiterChanged, events, func() {
		endChanged()
		endEvents()
	}
}

// schedule decides when the line is probed next. If one waiter was refused, all
// behind it are refused as well, even those that this batch did not include. If
// none was, the next batch goes on with the line. Guarded by mu.
func (b *batch) schedule(first refusal) {
	q := b.queue
	if first.waiter != nil && q.line.expired > 0 {
		q.line.all(func(w *waiter) {
			if w.isFinal(b.number) && first.covers(w) {
				b.deliver(w, request.Result{}, nil)
			}
		})
	}
	schedule := &q.line.schedule
	switch head := q.line.first; {
	case head == nil || !b.includesLine && first.waiter == nil:
		return
	case first.waiter == nil || head.Permits < first.Permits:
		schedule.NoteChange()
	case q.line.portion != nil && q.line.portion.Waits():
		schedule.NoteTurn(q.line.portion.NextLook(b.began), b.began, time.Now())
	default:
		schedule.NoteRefusal(first.wait, b.began, time.Now())
	}
	if q.line.expired > 0 {
		schedule.NoteExpiry()
	}
}
