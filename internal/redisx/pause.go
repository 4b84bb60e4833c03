package redisx

import (
	"context"
	"math/rand/v2"

	"github.com/redisson-go/rratelimiter/internal/pause"
)

// pause waits before the next attempt, longer each time, and randomly, so that
// callers do not come back together. It returns the error of ctx if that ends
// first.
func (k *Kind) pause(ctx context.Context, attempt int) error {
	most := k.minBackoff << attempt
	if most>>attempt != k.minBackoff || most > k.maxBackoff { // the shift may overflow
		most = k.maxBackoff
	}
	if most <= 0 {
		return ctx.Err()
	}
	return pause.For(ctx, most/2+rand.N(most/2+1))
}
