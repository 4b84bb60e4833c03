package rratelimiter

import (
	"context"
	"time"
)

const (
	// maxLate is how late a waiter of Redisson may wake up: one tick of its
	// timer (3.25.1 and later).
	maxLate = 100 * time.Millisecond

	// A late wake-up that nobody else uses leaves permits lying for as long. So
	// then there is one in each firstGap, and then in each maxGap: about 1 % of
	// the limit is unused for them.
	firstGap = time.Second
	maxGap   = 10 * time.Second
)

// turns decides who goes first when the permits of a line are due. A waiter of
// Java wakes up to maxLate later than one of Go, so that it would get next to
// nothing of a limit that is too small for both. So a wake-up of Go is late by
// as much where Go holds more than half of the permits that are out, as long as
// others take some meanwhile. After a late wake-up in which nobody did, the
// next ones come seldom.
type turns struct {
	last time.Time     // when the last late one was
	gap  time.Duration // there is one in each
}

// mayBeLate reports whether a wake-up now may be late: the first one in each gap.
// Gaps begin by the clock on the wall, so that all processes of Go are late
// together and Java finds what none of them has taken.
func (t turns) mayBeLate(now time.Time) bool {
	return !now.Truncate(t.gap).Equal(t.last.Truncate(t.gap))
}

// firstTurns is what the queue of a limiter begins with: what the one before
// it has come to, of whichever limiter of the Client.
func (c *Client) firstTurns() turns {
	if t := c.turns.Load(); t != nil {
		return *t
	}
	return turns{last: time.Now(), gap: maxLate} // nobody knows yet: a late one soon tells
}

// giveWay lets Java go first when it is its turn, and reports whether the line
// is still to be probed then. Callers that come meanwhile stand in line, too. A
// change by Go ends it at once: permits that were given back wait for nobody.
func (q *queue) giveWay(ctx context.Context, changed <-chan struct{}) bool {
	q.mu.Lock()
	k, due := q.keys, q.due
	alone := q.client.goOnly || k.believed() == PerClient // nobody else takes permits
	q.yields = !alone && q.turns.mayBeLate(time.Now())
	yields := q.yields
	q.mu.Unlock()
	if !yields {
		return true
	}
	taken, late, cut := k.letOthersTake(ctx, due, changed)

	q.mu.Lock()
	defer q.mu.Unlock()
	q.yields = false
	if late {
		q.turns = q.turns.after(taken)
		q.client.turns.Store(new(q.turns))
	}
	return cut || q.probe != probeWhenDue || !q.due.After(time.Now())
}

// letOthersTake waits until Java's waiters have had their time, if it is their
// turn (late), and reports whether somebody but Go has taken permits, and whether
// a change by Go has cut it short.
func (k *limiterKeys) letOthersTake(ctx context.Context, due time.Time, changed <-chan struct{}) (taken, late, cut bool) {
	before, err := k.others(ctx)
	switch {
	case err != nil:
		return false, true, false // so that the next look is not soon
	case before.ours <= before.theirs:
		return false, false, false
	}
	timer := time.NewTimer(min(maxLate, before.interval) - time.Since(due))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
		cut = true
	case <-ctx.Done():
	}
	after, err := k.others(ctx)
	return err == nil && after.newest != before.newest, true, cut
}

// after is what follows a late wake-up during which others took permits or not.
func (t turns) after(taken bool) turns {
	switch {
	case taken:
		return turns{time.Now(), 0}
	case t.gap < firstGap:
		return turns{time.Now(), firstGap}
	}
	return turns{time.Now(), maxGap}
}

// A share is how Go and others share a limiter (scripts/others.lua).
type share struct {
	interval     time.Duration
	newest       int64 // the time of the newest record that Go has not written
	ours, theirs int64 // permits
}

// others looks how the limiter is shared. It does not wait for Redis longer than
// a late wake-up lasts.
func (k *limiterKeys) others(ctx context.Context) (share, error) {
	ctx, cancel := context.WithTimeout(ctx, maxLate)
	defer cancel()
	return within(ctx, k, func(ctx context.Context) (share, error) {
		reply, _, err := k.run(ctx, operation{othersScript, time.Now(), argumentsOf()})
		return share{milliseconds(reply.At(0)), reply.At(1), reply.At(2), reply.At(3)}, err
	})
}
