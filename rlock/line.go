package rlock

import (
	"container/list"
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// A line holds the waiters of this process for one lock, first come, first served. Only the first asks
// Redis: when it is notified of an unlock, or when the lease of the holder expires. All others sleep.
type line struct {
	waiters list.List // of *waiter

	wake   <-chan struct{} // signals that the lock may be free; nil until a waiter sleeps
	cancel func()          // ends the subscription

	due time.Time // when the first waiter asks even without a notification

	asked   time.Time // when the request without a reply was sent, zero if there is none
	replies uint64    // number of replies

	// handed counts hand-overs in this process since other clients could get the lock.
	handed int

	// ownMessage: the next signal is only that of an unlock in this process or of the new subscription.
	// freed: the lock was unlocked after the last request of the head.
	ownMessage, freed bool

	// yields counts the foreign unlocks for which this process still yields: its own unlock has notified
	// several clients, and Java reacts more slowly than Go.
	yields int
}

const (
	// mostHanded bounds the hand-overs in a process before other clients, such as Java, get a turn.
	mostHanded = 1

	// othersFirst is how long a process that has unlocked waits for the clients that it has notified. A
	// caller whose wait ends earlier asks at once.
	othersFirst = 10 * time.Millisecond

	// again is the pause of a caller whose lock is moving between nodes.
	again = 50 * time.Millisecond
)

// A waiter is a hold that waits for its lock.
type waiter struct {
	hold  *Hold
	line  *line
	place *list.Element
	by    time.Time // the end of its wait; zero if it has none
	since uint64    // line.replies when it entered

	// look signals a change of state or line. It has a capacity of one.
	look chan struct{}

	state waiterState // guarded by the mu of the Client
	err   error       // why it was refused, guarded by the same
}

// A waiterState is the state of a waiter.
type waiterState int

const (
	asleep  waiterState = iota // the lock may be offered to it
	asking                     // its own request is under way
	offered                    // an unlock that hands it the lock is under way
	granted                    // it was handed the lock
	refused                    // the request of another waiter has failed
	left                       // it has left the line
)

// enter puts a hold at the end of the line of its lock.
func (c *Client) enter(ctx context.Context, h *Hold) *waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := c.lines[h.keys.Hash]
	if ln == nil {
		ln = &line{}
		c.lines[h.keys.Hash] = ln
	}
	w := &waiter{hold: h, line: ln, look: make(chan struct{}, 1), since: ln.replies}
	w.by, _ = ctx.Deadline()
	w.place = ln.waiters.PushBack(w)
	return w
}

// wait returns true when the hold has the lock, or an error.
func (w *waiter) wait(ctx context.Context) (bool, error) {
	defer w.leave()
	for {
		if held, err := w.sleep(ctx); err != nil || held {
			return held, w.unanswered(err)
		}
		a, err := w.hold.attempt(ctx, unseen)
		switch {
		case a.granted:
			return err == nil, err
		case redis.IsTryAgainError(err): // the slot of the lock is on its way to another node
			w.startOver()
			w.refusedFor(again)
		case err != nil:
			w.failed(ctx, err)
			return false, w.unanswered(err)
		case a.number < 0: // the lock does not expire
			w.refusedFor(w.hold.keys.client.watchdog)
		default:
			w.refusedFor(untilAfter(a.number))
		}
	}
}

// unanswered returns err, or an ErrNoAnswer if the wait expired and Redis never replied to any caller in
// the line.
func (w *waiter) unanswered(err error) error {
	c := w.hold.keys.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == errTimeUp && w.line.replies == w.since {
		return w.hold.keys.timeUp(w.line.asked, w.by)
	}
	return err
}

// untilAfter converts ms to a Duration that ends after them. Java may write a lease that no Duration can
// hold.
func untilAfter(ms int64) time.Duration {
	const rounding = time.Millisecond
	return time.Duration(min(ms, longest.Milliseconds()))*time.Millisecond + rounding
}

// startOver gives the waiter another owner if a request of its present owner may still take the lock.
func (w *waiter) startOver() {
	if w.hold.doubtful.Load() {
		w.hold.forgo()
		w.hold.rename()
	}
}

// sleep returns when the waiter, whose state is then asking, has to ask, or true when it was handed the
// lock.
func (w *waiter) sleep(ctx context.Context) (held bool, err error) {
	c := w.hold.keys.client
	next := w.next()
	if next.now {
		return next.held, next.err
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ; !next.now; next = w.next() {
		var due <-chan time.Time
		if next.wake != nil {
			timer.Reset(time.Until(next.due))
			due = timer.C
		}
		select {
		case <-w.look:
		case <-next.wake:
			c.notified(w.line)
		case <-due:
		case <-ctx.Done():
			return w.give(ended(ctx))
		case <-c.host.Ctx.Done():
			return w.give(rratelimiter.ErrClosed)
		}
	}
	return next.held, next.err
}

// A next is the next step of a waiter: to return now, and ask unless the lock was granted or refused; or
// to sleep, as the head of the line until wake or due.
type next struct {
	now, held bool
	err       error
	wake      <-chan struct{} // nil unless it is the head
	due       time.Time
}

// next returns the next step of the waiter. If it has to ask, its state becomes asking.
func (w *waiter) next() next {
	c := w.hold.keys.client
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := w.line
	switch {
	case w.state == granted || w.state == refused:
		return next{now: true, held: w.state == granted, err: w.err}
	case w.state == offered || ln.waiters.Front() != w.place:
		return next{}
	case !ln.due.After(time.Now()), ln.freed && !w.by.IsZero() && w.by.Before(ln.due):
		w.state, ln.freed = asking, false
		if ln.asked.IsZero() {
			ln.asked = time.Now()
		}
		return next{now: true}
	}
	if ln.wake == nil {
		ln.wake, ln.cancel = w.hold.keys.subscribe(w.hold.keys.Channel)
	}
	return next{wake: ln.wake, due: ln.due}
}

// give marks the waiter as left and returns err, unless it was handed the lock before.
func (w *waiter) give(err error) (held bool, _ error) {
	c := w.hold.keys.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.state == granted {
		return true, nil
	}
	w.state = left
	return false, err
}

// notified handles a signal of the line's channel.
func (c *Client) notified(ln *line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case ln.ownMessage:
		ln.ownMessage = false
	case ln.yields > 0:
		ln.yields--
		ln.freed, ln.due = true, time.Now().Add(othersFirst)
	default:
		ln.due = time.Time{}
	}
}

// refusedFor makes the line sleep for d, until the lease that Redis has reported expires.
func (w *waiter) refusedFor(d time.Duration) {
	c := w.hold.keys.client
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := w.line
	w.state, ln.handed, ln.ownMessage = asleep, 0, false
	ln.replied()
	if !ln.freed {
		ln.due = time.Now().Add(d)
	}
}

// failed refuses all sleeping waiters after a request without a reply, because they would get none either.
func (w *waiter) failed(ctx context.Context, err error) {
	c := w.hold.keys.client
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case redisx.Answered(err):
		w.line.replied()
		return
	case ctx.Err() != nil:
		return
	}
	for e := w.line.waiters.Front(); e != nil; e = e.Next() {
		if other, ok := e.Value.(*waiter); ok && other.state == asleep {
			other.state, other.err = refused, err
			signal(other.look)
		}
	}
}

// signal sends to c, which has a capacity of one. If c is full, its reader has not looked yet, and will also
// see this change.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wakeHead makes the first waiter look. The mu of the Client is held.
func (ln *line) wakeHead() {
	if head := ln.waiters.Front(); head != nil {
		if w, ok := head.Value.(*waiter); ok {
			signal(w.look)
		}
	}
}

// replied counts a reply. The mu of the Client is held.
func (ln *line) replied() {
	ln.asked = time.Time{}
	ln.replies++
}

// leave removes the waiter from the line, and wakes the next one.
func (w *waiter) leave() {
	c := w.hold.keys.client
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := w.line
	if w.hold.Err() == nil {
		if w.state == asking {
			ln.due = time.Now().Add(w.hold.lease)
		}
		ln.ownMessage = false // the next message may be that of a forced unlock
		ln.replied()
	}
	w.state = left
	ln.waiters.Remove(w.place)
	if ln.waiters.Len() > 0 {
		ln.wakeHead()
		return
	}
	if ln.cancel != nil {
		ln.cancel()
	}
	delete(c.lines, w.hold.keys.Hash)
}

// offer returns the first waiter for a lock that is about to be unlocked, if the lock may be handed to it.
// Otherwise the line ignores its own unlock message, because unlocked wakes it.
func (c *Client) offer(k *keys) *waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := c.lines[k.Hash]
	if ln == nil || ln.waiters.Len() == 0 {
		return nil
	}
	w, ok := ln.waiters.Front().Value.(*waiter)
	closed := c.host.Ctx.Err() != nil
	if !ok || ln.handed >= mostHanded || w.state != asleep || w.hold.keys.fenced != k.fenced || closed {
		ln.ownMessage = true
		return nil
	}
	ln.handed++
	ln.due = time.Now().Add(w.hold.lease) // set already, because a message may come before the reply
	w.state = offered
	return w
}

// unlocked wakes the line after an unlock that has notified some clients.
func (c *Client) unlocked(h *Hold, clients int64) {
	k, long := h.keys, time.Since(h.since) >= othersFirst
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := c.lines[k.Hash]
	switch {
	case k.fair || ln == nil && clients == 0:
		return
	case ln == nil: // the next caller of this process should also let other clients go first
		ln = &line{ownMessage: true}
		c.lines[k.Hash] = ln
		time.AfterFunc(othersFirst, func() { c.forget(k, ln) })
	case ln.wake != nil:
		clients-- // this process
	}
	ln.handed, ln.freed, ln.due, ln.yields = 0, true, time.Now(), 0
	if clients > 0 {
		ln.due = ln.due.Add(othersFirst)
	}
	if clients > 1 && long {
		ln.yields = int(clients) - 1
	}
	ln.wakeHead()
}

// forget drops a line without waiters.
func (c *Client) forget(k *keys, ln *line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lines[k.Hash] == ln && ln.waiters.Len() == 0 {
		delete(c.lines, k.Hash)
	}
}

// handed gives the offered lock to the waiter, or gives it back if the waiter has left.
func (w *waiter) handed(ctx context.Context, a lockReply) {
	err := w.hold.begin(a)
	c := w.hold.keys.client
	c.mu.Lock()
	gone := w.state == left
	if !gone {
		w.state, w.err = granted, err
		signal(w.look)
	}
	c.mu.Unlock()
	if gone {
		w.hold.end(context.Canceled)
	}
	if gone || errors.Is(err, rratelimiter.ErrClosed) { // the cleaner has stopped
		_, _ = w.hold.release(ctx)
	}
}

// notHanded undoes an offer after an unlock that failed or found the lock not held. A hand-over that may
// have happened is given up.
func (w *waiter) notHanded(unsure bool) {
	c := w.hold.keys.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if unsure {
		c.cleaner.giveUp(w.hold)
	}
	if w.state != left {
		w.state = asleep
		if unsure {
			w.hold.rename()
		}
	}
}
