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
	b := withTimeout(ctx, timeout)
	return b, b.end
}
