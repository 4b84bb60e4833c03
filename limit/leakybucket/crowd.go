package leakybucket

import (
	"container/list"
	"context"
	"math"
	"sync"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form"
)

// A waiting is the waiter of a Queue in memory.
type waiting struct {
	lines form.Opened[line]
	pacer pacer
	queue Queue
}

func (q Queue) inMemory(f form.Form) waits {
	return waits{f, waiting{f.(form.Opened[line]), newPacer(q, true), q}}
}

// A crowd holds the callers that wait in one line. It has its own lock, because its timer cannot know the
// current state of the key.
type crowd struct {
	mu      sync.Mutex
	waiters list.List // of chan struct{}, each closed at its turn
	next    time.Time // the turn of the first waiter
	timer   *time.Timer
	pace    time.Duration
	late    time.Duration // by which turns were postponed since lost was called
}

// slack is how late a turn may be without postponing the turns behind it. Timers are always somewhat
// late; but after a process was stopped, all the turns that have passed must not come at once.
const slack = 10 * time.Millisecond

func (w waiting) wait(ctx context.Context, key string) error {
	var d form.Decision
	var c *crowd
	var place *list.Element
	err := w.lines.Do(ctx, key, func(l *line, now int64) {
		if d = w.pacer.take(l, now, 1, 0); d.Allowed && d.Retry > 0 {
			if l.crowd == nil {
				l.crowd = &crowd{pace: time.Duration(w.pacer.pace * 1000)}
			}
			c = l.crowd
			place = c.enter(time.Duration(d.Retry) * time.Microsecond)
		}
	})
	switch {
	case err != nil:
		return err
	case !d.Allowed:
		return w.queue.full()
	case place == nil:
		return nil
	}
	select {
	case <-place.Value.(chan struct{}):
		return nil
	case <-ctx.Done():
	}
	if w.leave(context.WithoutCancel(ctx), key, c, place) {
		return left(ctx)
	}
	return nil // its turn came meanwhile
}

// leave reports whether a caller left before its turn. All behind it move up.
func (w waiting) leave(ctx context.Context, key string, c *crowd, place *list.Element) (gone bool) {
	_ = w.lines.Do(ctx, key, func(l *line, now int64) {
		behind, ok := c.leave(place)
		if gone = ok; !gone || l.crowd != c {
			return
		}
		owed := max(0, w.pacer.at(l, now)-w.pacer.pace)
		w.pacer.set(l, owed, now)
		l.tail = 0
		if behind > 0 {
			l.tail = now + int64(math.Ceil(max(0, owed-w.pacer.pace)))
		}
	})
	return gone
}

// enter appends a waiter, whose turn is after some time.
func (c *crowd) enter(after time.Duration) *list.Element {
	c.mu.Lock()
	defer c.mu.Unlock()
	place := c.waiters.PushBack(make(chan struct{}))
	if c.waiters.Len() == 1 {
		c.next = time.Now().Add(after)
		c.timer = time.AfterFunc(after, c.turn)
	}
	return place
}

// leave removes a waiter, unless it has had its turn, and returns how many are left. If it was the first,
// the next one has its turn.
func (c *crowd) leave(place *list.Element) (n int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-place.Value.(chan struct{}):
		return c.waiters.Len(), false
	default:
	}
	c.waiters.Remove(place)
	if c.waiters.Len() == 0 {
		c.timer.Stop()
	}
	return c.waiters.Len(), true
}

// postpone moves all turns so that the first is now, if it is long past. The caller holds the lock.
func (c *crowd) postpone() {
	if late := time.Since(c.next); late > slack && c.waiters.Len() > 0 {
		c.next = c.next.Add(late)
		c.late += late
	}
}

// lost returns the µs by which turns were postponed since the last call.
func (c *crowd) lost() (us int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.postpone()
	us = c.late.Microseconds()
	c.late -= time.Duration(us) * time.Microsecond
	return us
}

// turn lets the first waiter go. A timer that fires though it was stopped may find none, or one whose turn
// is still to come.
func (c *crowd) turn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.waiters.Front()
	if first == nil {
		return
	}
	c.postpone()
	if early := time.Until(c.next); early > 0 {
		c.timer.Reset(early)
		return
	}
	c.waiters.Remove(first)
	close(first.Value.(chan struct{}))
	if c.waiters.Len() > 0 {
		c.next = c.next.Add(c.pace)
		c.timer.Reset(max(0, time.Until(c.next)))
	}
}
