package httplimit

import (
	"context"
	"time"
)

// Paused returns the number of hosts that are remembered.
func (t *RetryAfterTransport) Paused() int { return len(t.pausedUntil) }

var ReadDraft11 = readDraft11

func WithTimeLimit(ctx context.Context, timeout time.Duration) (context.Context, func()) {
	c := newCall(ctx, timeout)
	c.restart()
	return &c.bounded, c.end
}

// TimerRuns reports whether a context of WithTimeLimit has a timer, and stops it.
func TimerRuns(ctx context.Context) bool {
	b, _ := ctx.(*bounded)
	return b.timer != nil && b.timer.Stop()
}
