package rratelimiter

import (
	"context"
	"time"
)

const (
	// maxLate is how late a waiter of Redisson may wake up: one tick of its
	// timer (3.25.1 and later).
	maxLate = 100 * time.Millisecond

	// maxGap is the time between two late wake-ups where nobody but Go takes
	// permits: so at most 1 % of the limit is unused for them.
	maxGap = 10 * time.Second
)

// turns decides who goes first when the permits of a line are due. A waiter of
// Java wakes up to maxLate later than one of Go, so that it would get next to
// nothing of a limit that is too small for both. So every other wake-up of a
// line is late by as much, as long as Java takes permits meanwhile. After one
// in which nobody did, the next late one comes ever later, up to maxGap.
type turns struct {
	late bool          // the last wake-up was late
	last time.Time     // when the last late one was
	gap  time.Duration // from it to the next one
}

// punctual reports whether the wake-up that is due is not a late one.
func (t *turns) punctual() bool {
	t.late = !t.late && time.Since(t.last) >= t.gap
	return !t.late
}

// met says whether others took permits during a late wake-up, by as much as
// lateness.
func (t *turns) met(others bool, lateness time.Duration) {
	t.last = time.Now()
	if others {
		t.gap = 0
	} else {
		t.gap = min(maxGap, max(2*t.gap, 2*lateness))
	}
}

// firstTurns is what the queue of a limiter begins with: what the one before
// it has come to, of whichever limiter.
func (c *Client) firstTurns() turns {
	if t := c.turns.Load(); t != nil {
		return *t
	}
	return turns{late: true} // the first wake-up is punctual
}

// giveWay lets Java go first when it is its turn, and reports whether the line
// still is to be probed then. A change by Go ends it at once: permits that were
// given back wait for nobody.
func (q *queue) giveWay(ctx context.Context, changed <-chan struct{}) bool {
	l, due, punctual := q.turn()
	if punctual {
		return true
	}
	before, err := l.others(ctx)
	if err != nil {
		return true
	}
	lateness := min(maxLate, before.interval)
	timer := time.NewTimer(lateness - time.Since(due))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
		return true
	case <-ctx.Done():
		return false
	}
	after, err := l.others(ctx)

	q.mu.Lock()
	defer q.mu.Unlock()
	if err == nil {
		q.turns.met(after.newest != before.newest, lateness)
		q.client.turns.Store(new(q.turns))
	}
	return q.due.Equal(due)
}

// turn begins a wake-up, and returns whose it is and when it was due.
func (q *queue) turn() (l *RateLimiter, due time.Time, punctual bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l = q.limiter
	if q.client.goOnly || RateType(l.typ.Load()) == PerClient { // nobody else takes permits
		return l, q.due, true
	}
	punctual = q.turns.punctual()
	q.client.turns.Store(new(q.turns))
	return l, q.due, punctual
}

// A sight is what others.lua finds.
type sight struct {
	interval time.Duration
	newest   int64 // the time of the newest record that Go has not written
}

// others looks who takes permits. It does not wait for Redis longer than
// a late wake-up lasts.
func (l *RateLimiter) others(ctx context.Context) (sight, error) {
	ctx, cancel := context.WithTimeout(ctx, maxLate)
	defer cancel()
	return within(ctx, l, func(ctx context.Context) (sight, error) {
		r, _, err := l.call(ctx, l.keys.Load(), othersScript, asking{}, "", "")
		return sight{milliseconds(r.numbers[0]), r.numbers[1]}, err
	})
}
