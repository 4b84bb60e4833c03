package leakybucket

import (
	"container/list"
	"context"
	"math"
	"sync"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form"
)

// A waiting has callers wait in memory.
type waiting struct {
	lines form.Opened[line]
	pacer pacer
	queue Queue
}

func (q Queue) inMemory(lines form.Opened[line]) waiting {
	return waiting{lines, newPacer(q, q.Interval.Microseconds(), true), q}
}

// A crowd is those who wait in one line. It has its own lock: the timer does not know
// which state is that of the key by now.
type crowd struct {
	mu      sync.Mutex
	waiters list.List // of chan struct{}, each closed when it is its turn
	next    time.Time // the turn of the first one
	timer   *time.Timer
	pace    time.Duration
	late    time.Duration // by which turns were put off, of which the line does not know yet
}

// slack is how late a turn may be without those behind being later. Timers are late by a
// little; a process that was stopped must not let all go whose turns have passed.
const slack = 10 * time.Millisecond

func (w waiting) wait(ctx context.Context, key string) error {
	var a form.Answer
	var c *crowd
	var place *list.Element
	err := w.lines.Do(ctx, key, func(l *line, now int64) {
		if a = w.pacer.take(l, now, 1); a.Allowed && a.Retry > 0 {
			if l.crowd == nil {
				l.crowd = &crowd{pace: time.Duration(w.pacer.pace * 1000)}
			}
			c = l.crowd
			place = c.enter(time.Duration(a.Retry) * time.Microsecond)
		}
	})
	switch {
	case err != nil:
		return err
	case !a.Allowed:
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
	return nil // it was its turn meanwhile
}

// leave reports whether one has left before its turn. All behind move up.
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

// enter places one at the end of the line, whose turn is after some time.
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

// leave takes one out of the line, unless it has had its turn. It returns how many are
// left. The next one has the turn of the first.
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

// putOff has all turns begin now if they are long past. The caller has the lock.
func (c *crowd) putOff() {
	if late := time.Since(c.next); late > slack && c.waiters.Len() > 0 {
		c.next = c.next.Add(late)
		c.late += late
	}
}

// lost returns by how many µs turns were put off since the last time it was asked.
func (c *crowd) lost() (us int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.putOff()
	us = c.late.Microseconds()
	c.late -= time.Duration(us) * time.Microsecond
	return us
}

// turn lets the first one go. A timer that fires though it was stopped finds nobody, or
// one whose turn is not yet.
func (c *crowd) turn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.waiters.Front()
	if first == nil {
		return
	}
	c.putOff()
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
