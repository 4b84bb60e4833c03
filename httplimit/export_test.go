package httplimit

import (
	"context"
	"time"
)

// What the specs look at from inside.

// Holds returns how many hosts are remembered.
func (h *Heeder) Holds() int { return len(h.until) }

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
