package engine

import (
	"context"
	"time"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

const (
	// maxLate is by how much a waiter of Redisson may wake up late: one tick of its
	// timer (3.25.1 and later).
	maxLateness = 100 * time.Millisecond

	// A late wake-up during which nobody else takes permits wastes that time. So
	// then there is one in each firstGap, and later one in each maxGap: they leave
	// about 1 % of the limit unused.
	firstGap = time.Second
	maxGap   = 10 * time.Second
)

// turns decides who goes first when the permits of a line are due: Go or Java. A
// waiter of Java wakes up to maxLate later than one of Go, so that it would get next
// to nothing of a limit that is too small for both. So Go wakes up late by as much,
// where it holds more than half of the permits that are out. It does so each time as
// long as others take permits meanwhile, and seldom after a late wake-up during which
// nobody did.
type turns struct {
	lastLate time.Time     // when the last late wake-up was
	gap      time.Duration // there is one in each
}

// mayBeLate reports whether a wake-up now may be late: the first one in each gap.
// Gaps begin by the clock on the wall, so that all processes of Go are late
// together and Java finds what none of them has taken.
func (t turns) mayBeLate(now time.Time) bool {
	return !now.Truncate(t.gap).Equal(t.lastLate.Truncate(t.gap))
}

// firstTurns is what the queue of a limiter begins with: what the last queue that
// decided has come to, of whichever limiter of the Engine.
func firstTurns(e *Engine) turns {
	if last := e.turns.Load(); last != nil {
		return *last
	}
	return turns{lastLate: time.Now(), gap: maxLateness} // nothing is known: a late wake-up soon tells
}

// letOthersTake waits until the waiters of Java have had their time, if it is their
// turn (late). It reports whether somebody but Go has taken permits, and whether a
// change by Go has cut it short.
func letJavaGoFirst(
	ctx context.Context, l *Limiter, due time.Time, changed <-chan struct{},
) (taken, late, cut bool) {
	before, err := sharesOf(ctx, l)
	switch {
	case err != nil:
		return false, true, false // so that it is not asked again soon
	case before.goPermits <= before.otherPermits:
		return false, false, false
	}
	timer := time.NewTimer(min(maxLateness, before.interval) - time.Since(due))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
		cut = true
	case <-ctx.Done():
	}
	after, err := sharesOf(ctx, l)
	return err == nil && after.newest != before.newest, true, cut
}

// after is what follows a late wake-up during which others took permits or not.
func (t turns) next(taken bool) turns {
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
	interval                time.Duration
	newest                  int64 // the time of the newest record that Go has not written
	goPermits, otherPermits int64 // permits
}

// sharesOf returns how the limiter is shared. It does not wait for Redis longer than
// a late wake-up lasts.
func sharesOf(ctx context.Context, l *Limiter) (share, error) {
	ctx, cancel := context.WithTimeout(ctx, maxLateness)
	defer cancel()
	return within(ctx, l, func(ctx context.Context) (share, error) {
		reply, _, err := l.run(ctx, operation{othersScript, time.Now(), argumentsOf(), nil})
		return share{wire.Milliseconds(reply.At(0)), reply.At(1), reply.At(2), reply.At(3)}, err
	})
}
