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

// A line is who waits for one lock in this process, first come, first served. Only the
// first asks Redis: when it is told that the lock was unlocked, or when the lease of
// the holder has run out. The others sleep.
type line struct {
	waiters list.List // of *waiter

	wake   <-chan struct{} // signals that the lock may be free; nil before the first waiter sleeps
	cancel func()          // ends the subscription

	due time.Time // the first asks by then, also if it is not told

	asked   time.Time // since when Redis owes a reply, zero if it does not
	answers uint64    // how often it has

	// handed is how often the lock was handed on in this process since others had
	// the chance to get it.
	handed int

	// own says that the next signal tells nothing new: the message is of an unlock in this
	// process, or the subscription has begun. freed says that there was such an unlock
	// since the head has asked.
	own, freed bool

	// pass is at how many unlocks of others this process lets others go first. Those who were
	// told of its own unlock were more than one, and Java is slower to come than Go.
	pass int
}

const (
	// mostHanded is how often the lock is handed on in a process before others, such
	// as Java, get the chance.
	mostHanded = 1

	// othersFirst is how long a process lets others go first that were told of its
	// unlock: it had the lock before. Who has no time for that asks at once.
	othersFirst = 10 * time.Millisecond

	// again is how long a caller waits whose lock is just moving between nodes.
	again = 50 * time.Millisecond
)

// A waiter is a hold that waits for its lock.
type waiter struct {
	hold  *Hold
	line  *line
	place *list.Element
	by    time.Time // its time is over then; zero if it waits without end
	since uint64    // the answers when it came

	// look says that state or line have changed. It has a capacity of one.
	look chan struct{}

	state waiterState // guarded by the mu of the Client
	err   error       // why it was refused, guarded by the same
}

// A waiterState is what a waiter does.
type waiterState int

const (
	asleep  waiterState = iota // the lock may be offered to it
	asking                     // its own request is on the way
	offered                    // an unlock is on the way that hands the lock on to it
	granted                    // the lock was handed on to it
	refused                    // Redis has failed, for another waiter
	left                       // it is not in the line any more
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
	w := &waiter{hold: h, line: ln, look: make(chan struct{}, 1), since: ln.answers}
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
		case a.number < 0: // somebody has made it last
			w.refusedFor(w.hold.keys.client.watchdog)
		default:
			w.refusedFor(untilAfter(a.number))
		}
	}
}

// unanswered returns err, or an ErrNoAnswer if the time is over of a waiter to whom Redis has told
// nothing: neither to itself nor to who asks for all.
func (w *waiter) unanswered(err error) error {
	c := w.hold.keys.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == errTimeUp && w.line.answers == w.since {
		return w.hold.keys.timeUp(w.line.asked, w.by)
	}
	return err
}

// untilAfter returns how long it is until so many ms are over. Java may write a lease that no
// time.Duration can hold.
func untilAfter(ms int64) time.Duration {
	const rounding = time.Millisecond
	return time.Duration(min(ms, longest.Milliseconds()))*time.Millisecond + rounding
}

// startOver has the waiter ask as another owner, if the one that it was may hold the lock
// or get it yet.
func (w *waiter) startOver() {
	if w.hold.doubtful.Load() {
		w.hold.forgo()
		w.hold.rename()
	}
}

// sleep returns when it is time to ask, and has noted that the waiter asks, or true when
// the lock was handed on to it.
func (w *waiter) sleep(ctx context.Context) (held bool, err error) {
	c := w.hold.keys.client
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next := w.next()
		if next.now {
			return next.held, next.err
		}
		var due <-chan time.Time
		if next.wake != nil {
			timer.Reset(time.Until(next.due))
			due = timer.C
		}
		select {
		case <-w.look:
		case <-next.wake:
			c.heard(w.line)
		case <-due:
		case <-ctx.Done():
			return w.give(ended(ctx))
		case <-c.host.Ctx.Done():
			return w.give(rratelimiter.ErrClosed)
		}
	}
}

// A next is what a waiter does next: it returns now, to ask unless it was handed the
// lock or refused; or it sleeps, as the head of the line until it is woken or something
// is due.
type next struct {
	now, held bool
	err       error
	wake      <-chan struct{} // nil unless it is the head
	due       time.Time
}

// next returns what the waiter does next. If that is to ask, it is noted.
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

// give leaves with an error, unless the lock was handed on to the waiter before.
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

// heard notes that the line was told of an unlock.
func (c *Client) heard(ln *line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case ln.own:
		ln.own = false
	case ln.pass > 0:
		ln.pass--
		ln.freed, ln.due = true, time.Now().Add(othersFirst)
	default:
		ln.due = time.Time{}
	}
}

// refusedFor notes how long the lock is not free, as far as is known.
func (w *waiter) refusedFor(d time.Duration) {
	c := w.hold.keys.client
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := w.line
	w.state, ln.handed, ln.own = asleep, 0, false
	ln.answered()
	if !ln.freed {
		ln.due = time.Now().Add(d)
	}
}

// failed tells all that wait that Redis has not replied: it would not reply to them.
func (w *waiter) failed(ctx context.Context, err error) {
	c := w.hold.keys.client
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case redisx.Answered(err):
		w.line.answered()
		return
	case ctx.Err() != nil:
		return
	}
	for e := w.line.waiters.Front(); e != nil; e = e.Next() {
		if other, ok := e.Value.(*waiter); ok && other.state == asleep {
			other.state, other.err = refused, err
			other.tell()
		}
	}
}

// tell has a waiter look at what has changed.
func (w *waiter) tell() {
	select {
	case w.look <- struct{}{}:
	default: // it is about to look
	}
}

// tellHead has the first waiter look. The mu of the Client is held.
func (ln *line) tellHead() {
	if head := ln.waiters.Front(); head != nil {
		if w, ok := head.Value.(*waiter); ok {
			w.tell()
		}
	}
}

// answered notes that Redis has replied. The mu of the Client is held.
func (ln *line) answered() {
	ln.asked = time.Time{}
	ln.answers++
}

// leave takes the waiter out of the line, and has the next one look.
func (w *waiter) leave() {
	c := w.hold.keys.client
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := w.line
	if w.hold.Err() == nil {
		ln.due = time.Now().Add(w.hold.lease)
		ln.answered()
	}
	w.state = left
	ln.waiters.Remove(w.place)
	if ln.waiters.Len() > 0 {
		ln.tellHead()
		return
	}
	if ln.cancel != nil {
		ln.cancel()
	}
	delete(c.lines, w.hold.keys.Hash)
}

// offer returns who waits first for a lock that is about to be unlocked, if it may be
// handed on to it. Otherwise the line does without the message, for told follows.
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
		ln.own = true
		return nil
	}
	ln.handed++
	w.state = offered
	return w
}

// told notes that a hold was unlocked, and how many clients were told.
func (c *Client) told(h *Hold, clients int64) {
	k, long := h.keys, time.Since(h.since) >= othersFirst
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := c.lines[k.Hash]
	switch {
	case k.fair || ln == nil && clients == 0:
		return
	case ln == nil: // who asks next in this process had the lock just now
		ln = &line{own: true}
		c.lines[k.Hash] = ln
		time.AfterFunc(othersFirst, func() { c.forget(k, ln) })
	case ln.wake != nil:
		clients-- // this process
	}
	ln.handed, ln.freed, ln.due, ln.pass = 0, true, time.Now(), 0
	if clients > 0 {
		ln.due = ln.due.Add(othersFirst)
	}
	if clients > 1 && long {
		ln.pass = int(clients) - 1
	}
	ln.tellHead()
}

// forget drops a line in which nobody waits.
func (c *Client) forget(k *keys, ln *line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lines[k.Hash] == ln && ln.waiters.Len() == 0 {
		delete(c.lines, k.Hash)
	}
}

// handed gives the waiter the lock that was offered to it, or gives it back if the waiter
// has left.
func (w *waiter) handed(ctx context.Context, a answer) {
	err := w.hold.begin(a)
	c := w.hold.keys.client
	c.mu.Lock()
	gone := w.state == left
	if !gone {
		w.state, w.err = granted, err
		w.tell()
	}
	c.mu.Unlock()
	if gone {
		w.hold.end(context.Canceled)
	}
	if gone || errors.Is(err, rratelimiter.ErrClosed) { // then the janitor does not run any more
		_, _ = w.hold.release(ctx)
	}
}

// notHanded undoes an offer: the unlock has failed, or the lock was not held. If the lock
// may have been handed on all the same, that is given up.
func (w *waiter) notHanded(unsure bool) {
	c := w.hold.keys.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if unsure {
		c.janitor.giveUp(w.hold)
	}
	if w.state != left {
		w.state = asleep
		if unsure {
			w.hold.rename()
		}
	}
}
