package httplimit

import (
	"context"
	"time"
)

// What the specs look at from inside.

var ReadDraft11 = readDraft11

func WithTimeLimit(ctx context.Context, timeout time.Duration) (context.Context, func()) {
	b := withTimeout(ctx, timeout)
	return b, b.end
}
