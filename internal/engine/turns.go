package engine

import (
	"context"
	"time"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

const (
	// maxLateness is how late a waiter of Redisson may wake up: one tick of its
	// timer (3.25.1 and later).
	maxLateness = 100 * time.Millisecond

	// A late wake-up that no other client uses to take permits wastes its time.
	// After such a wake-up there is one per firstGap, and then one per maxGap.
	// They leave about 1 % of the limit unused.
	firstGap = time.Second
	maxGap   = 10 * time.Second
)

// turns decides whether Go or Java goes first when the permits of a line are due.
// A waiter of Java wakes up to maxLateness later than one of Go, and would get
// next to nothing of a limit that is too small for both. So if Go holds more than
// half of the taken permits, Go wakes up late as well. It does so every time
// while other clients take permits meanwhile, and rarely after a late wake-up in
// which none did.
type turns struct {
	lastLate time.Time     // when the last late wake-up was
	gap      time.Duration // at most one late wake-up in each
}

// mayBeLate reports whether a wake-up now may be late: the first one in each gap may.
// Gaps begin by the wall clock, so that all Go processes are late together. If they were
// late one at a time, the rest would take the permits meant for Java.
func (t turns) mayBeLate(now time.Time) bool {
	return !now.Truncate(t.gap).Equal(t.lastLate.Truncate(t.gap))
}

// firstTurns returns the turns that a new queue begins with: those of the queue
// that decided last, of any limiter of the Engine.
func firstTurns(e *Engine) turns {
	if last := e.turns.Load(); last != nil {
		return *last
	}
	return turns{lastLate: time.Now(), gap: maxLateness} // unknown: a late wake-up soon tells
}

// letJavaGoFirst waits while the waiters of Java wake up, if it is their turn
// (late). taken reports whether a client other than Go has taken permits, cut
// whether a change by Go has ended the wait.
func letJavaGoFirst(
	ctx context.Context, l *Limiter, due time.Time, limiterChanged <-chan struct{},
) (taken, late, cut bool) {
	before, err := sharesOf(ctx, l)
	switch {
	case err != nil:
		return false, true, false // counts as late, so that Redis is not asked again soon
	case before.goPermits <= before.otherPermits:
		return false, false, false
	}
	timer := time.NewTimer(min(maxLateness, before.interval) - time.Since(due))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-limiterChanged:
		cut = true
	case <-ctx.Done():
	}
	after, err := sharesOf(ctx, l)
	return err == nil && after.newest != before.newest, true, cut
}

// next returns the turns after a late wake-up, by whether other clients took permits in
// it.
func (t turns) next(taken bool) turns {
	switch {
	case taken:
		return turns{time.Now(), 0}
	case t.gap < firstGap:
		return turns{time.Now(), firstGap}
	}
	return turns{time.Now(), maxGap}
}

// A share says how Go and other clients share a limiter (scripts/others.lua).
type share struct {
	interval                time.Duration
	newest                  int64 // the time of the newest record that Go has not written
	goPermits, otherPermits int64
}

// sharesOf asks Redis for the share. It waits no longer than a late wake-up
// lasts, because the line is not served meanwhile.
func sharesOf(ctx context.Context, l *Limiter) (share, error) {
	ctx, cancel := context.WithTimeout(ctx, maxLateness)
	defer cancel()
	return within(ctx, l, func(ctx context.Context) (share, error) {
		reply, _, err := l.run(ctx, newCall(othersScript, argumentsOf()))
		return share{wire.Milliseconds(reply.At(0)), reply.At(1), reply.At(2), reply.At(3)}, err
	})
}
