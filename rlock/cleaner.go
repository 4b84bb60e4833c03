package rlock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// rememberFor is how long an idempotency key lasts if it is not removed. A copy of a request that arrives
// later could take the lock for a lease, without a holder.
const rememberFor = time.Minute

// A cleaner removes what holds have left in Redis: idempotency keys that are no longer needed, and owners
// that may hold a lock without a Hold.
type cleaner struct {
	client *Client

	mu              sync.Mutex
	idempotencyKeys []string
	leftovers       []leftover
	runs            bool
}

// A leftover is an owner without a Hold that may have a lock, or may still get it.
type leftover struct {
	call  redisx.Call // ends its hold
	until time.Time   // when its lease has expired
}

const (
	tidyEvery           = 100 * time.Millisecond
	tidyRarely          = time.Second // while Redis does not reply
	mostIdempotencyKeys = 10_000      // more are left to expire
	mostRefused         = 1000        // leftovers that Redis has refused to end; more are left to expire
)

// remove schedules the removal of an idempotency key.
func (c *cleaner) remove(idempotencyKey string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idempotencyKeys) < mostIdempotencyKeys {
		c.idempotencyKeys = append(c.idempotencyKeys, idempotencyKey)
	}
	c.start()
}

// giveUp ends the hold of an owner as soon as Redis replies. Late copies of its requests then find its
// idempotency key.
func (c *cleaner) giveUp(h *Hold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call, until := h.unlockCall(0, 0), time.Now().Add(h.lease+rememberFor)
	c.leftovers = append(c.leftovers, leftover{call, until})
	c.start()
}

// start starts the goroutine unless it runs. c.mu is held.
func (c *cleaner) start() {
	if !c.runs {
		c.runs = c.client.host.Go(c.run)
	}
}

// run cleans up until nothing is left to do.
func (c *cleaner) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for pause := tidyEvery; ; {
		idempotencyKeys, leftovers, more := c.take()
		if !more {
			return
		}
		c.unlink(ctx, idempotencyKeys)
		pause = tidyEvery
		if kept := c.end(ctx, leftovers); len(kept) > 0 {
			pause = tidyRarely
			c.mu.Lock()
			c.leftovers = append(kept, c.leftovers...)
			c.mu.Unlock()
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// take returns the keys to remove and the leftovers to end. If there are none, more is false and run ends.
func (c *cleaner) take() (idempotencyKeys []string, leftovers []leftover, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	idempotencyKeys, leftovers, c.idempotencyKeys, c.leftovers = c.idempotencyKeys, c.leftovers, nil, nil
	c.runs = len(idempotencyKeys) > 0 || len(leftovers) > 0
	return idempotencyKeys, leftovers, c.runs
}

// unlink removes idempotency keys. Keys that it fails to remove expire.
func (c *cleaner) unlink(ctx context.Context, idempotencyKeys []string) {
	_, _ = c.client.host.Redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, key := range idempotencyKeys {
			pipe.Unlink(ctx, key)
		}
		return nil
	})
}

// end ends the holds of leftovers, in order for each lock, and returns the leftovers that it could not
// end. A silent node of a cluster delays only its own.
func (c *cleaner) end(ctx context.Context, leftovers []leftover) (kept []leftover) {
	now := time.Now()
	leftovers = slices.DeleteFunc(leftovers, func(l leftover) bool { return now.After(l.until) })
	calls := make([]*redisx.Call, len(leftovers))
	for i := range leftovers {
		calls[i] = &leftovers[i].call
	}
	refused := 0
	for i, result := range c.client.host.Runner.RunAll(ctx, calls) {
		if redisx.Final(result.Err) { // such as BUSY, which passes, but without a bound there may be many
			if refused++; refused > mostRefused {
				continue
			}
		}
		if result.Err != nil {
			kept = append(kept, leftovers[i])
		}
	}
	return kept
}
