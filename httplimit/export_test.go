package httplimit

import (
	"context"
	"time"
)

// What the specs look at from inside.

// Paused returns the number of hosts in memory.
func (t *RetryAfterTransport) Paused() int { return len(t.pausedUntil) }

var ReadDraft11 = readDraft11

func WithTimeLimit(ctx context.Context, timeout time.Duration) (context.Context, func()) {
	q := newQuestion(ctx, timeout)
	q.restart()
	return &q.bounded, q.end
}

// TimerRuns reports whether a context of WithTimeLimit has a timer, and stops it.
func TimerRuns(ctx context.Context) bool {
	b, _ := ctx.(*bounded)
	return b.timer != nil && b.timer.Stop()
}
