// Package pause waits for time to pass.
package pause

import (
	"context"
	"time"
)

// For waits for d. If ctx ends before, it returns the error of ctx.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
