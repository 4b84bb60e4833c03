package rlock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// latchFor is how long a latch lasts that is not removed: a copy of a request that
// comes later than that could take a lock that nobody wants, for a lease.
const latchFor = time.Minute

// A janitor removes what holds have left in Redis: latches that are not needed any
// more, and owners of which it is not known whether they hold a lock.
type janitor struct {
	client *Client

	mu        sync.Mutex
	latches   []string
	leftovers []leftover
	runs      bool
}

// A leftover is an owner that may hold a lock, or may get it yet, for nobody.
type leftover struct {
	call  redisx.Call // ends its hold
	until time.Time   // when its lease has run out
}

const (
	tidyEvery   = 100 * time.Millisecond
	tidyRarely  = time.Second // while Redis does not reply
	mostLatches = 10_000      // more end by themselves
)

// remove has a latch removed.
func (j *janitor) remove(latch string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.latches) < mostLatches {
		j.latches = append(j.latches, latch)
	}
	j.start()
}

// giveUp ends the hold of whoever a hold is in Redis, as soon as Redis replies. Late
// copies of its requests then meet its latch.
func (j *janitor) giveUp(h *Hold) {
	j.mu.Lock()
	defer j.mu.Unlock()
	call, until := h.unlockCall(0, 0), time.Now().Add(h.lease+latchFor)
	j.leftovers = append(j.leftovers, leftover{call, until})
	j.start()
}

// start starts the goroutine, if it does not run. j.mu is held.
func (j *janitor) start() {
	if !j.runs {
		j.runs = j.client.host.Go(j.run)
	}
}

// run tidies up as long as there is something to do.
func (j *janitor) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for pause := tidyEvery; ; {
		latches, leftovers, more := j.take()
		if !more {
			return
		}
		j.unlink(ctx, latches)
		pause = tidyEvery
		if kept := j.end(ctx, leftovers); len(kept) > 0 {
			pause = tidyRarely
			j.mu.Lock()
			j.leftovers = append(kept, j.leftovers...)
			j.mu.Unlock()
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// take returns what there is to do; more is false if that is nothing: then run ends.
func (j *janitor) take() (latches []string, leftovers []leftover, more bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	latches, leftovers, j.latches, j.leftovers = j.latches, j.leftovers, nil, nil
	j.runs = len(latches) > 0 || len(leftovers) > 0
	return latches, leftovers, j.runs
}

// unlink removes latches. What fails ends by itself.
func (j *janitor) unlink(ctx context.Context, latches []string) {
	if len(latches) == 0 {
		return
	}
	_, _ = j.client.host.Redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, latch := range latches {
			pipe.Unlink(ctx, latch)
		}
		return nil
	})
}

// end ends the holds of leftovers, those of one lock in their order, and returns those
// that are still to be ended. A node of a cluster that does not reply holds up its own.
func (j *janitor) end(ctx context.Context, leftovers []leftover) (kept []leftover) {
	now := time.Now()
	leftovers = slices.DeleteFunc(leftovers, func(l leftover) bool { return now.After(l.until) })
	calls := make([]*redisx.Call, len(leftovers))
	for i := range leftovers {
		calls[i] = &leftovers[i].call
	}
	if len(calls) == 0 {
		return nil
	}
	for i, result := range j.client.host.Runner.RunAll(ctx, calls) {
		if result.Err != nil && !redisx.Final(result.Err) {
			kept = append(kept, leftovers[i])
		}
	}
	return kept
}
