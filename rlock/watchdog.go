package rlock

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// keep registers a hold until its end, and renews it if it has no lease of its own.
func (c *Client) keep(h *Hold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.Err() != nil {
		return
	}
	if !h.renewed {
		h.listed = c.leased.PushBack(h)
		return
	}
	h.due = time.Now().Add(c.third())
	h.listed = c.renewed.PushBack(h)
	if !c.runs {
		c.runs = c.host.Go(c.watch)
	}
}

// third returns how long after a renewal the next one is due.
func (c *Client) third() time.Duration { return c.watchdog / 3 }

// drop undoes keep.
func (c *Client) drop(h *Hold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.listed == nil {
		return
	}
	if h.renewed {
		c.renewed.Remove(h.listed)
	} else {
		c.leased.Remove(h.listed)
	}
	h.listed = nil
}

// oneTrip bounds the holds that one round trip renews, so that Redis replies within the timeout of the
// client even if the pool is small and replies are late.
const oneTrip = 10_000

// watch renews holds while there are any.
func (c *Client) watch(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		holds, next, more := c.dueNow()
		if !more {
			return
		}
		for trip := range slices.Chunk(holds, oneTrip) {
			c.host.Work(func(ctx context.Context) { c.renew(ctx, trip) })
		}
		timer.Reset(time.Until(next))
		select {
		case <-timer.C:
		case <-c.sooner:
		case <-ctx.Done():
			return
		}
	}
}

// dueNow returns the holds whose renewal is due, or nearly so, and when the next one is due. If there
// are no holds, more is false and watch ends.
func (c *Client) dueNow() (holds []*Hold, next time.Time, more bool) {
	const nearly = 2 * retryPart // of third: holds due within it are renewed now, but no retry is
	const filling = 2            // of third: holds due within it fill up a script call
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	soon, later := now.Add(c.third()/nearly), now.Add(c.third()/filling)
	for range c.renewed.Len() {
		e := c.renewed.Front()
		h, ok := e.Value.(*Hold)
		full := len(holds)%batches[0] == 0
		if !ok || h.due.After(later) || full && h.due.After(soon) {
			break
		}
		h.due = now.Add(c.third())
		c.renewed.MoveToBack(e)
		holds = append(holds, h)
	}
	e := c.renewed.Front()
	if e == nil {
		c.runs = false
		return nil, now, false
	}
	if h, ok := e.Value.(*Hold); ok {
		next = h.due
	}
	return holds, next, true
}

// renew renews holds; those in one slot of a cluster share a script call. If Redis refuses a call because
// the slot is moving to another node, or the user has lost the right to one of the keys, each hold of the
// call gets its own.
func (c *Client) renew(ctx context.Context, holds []*Hold) {
	groups := [][]*Hold{holds}
	if c.host.Runner.Sharded {
		bySlot := map[int][]*Hold{}
		for _, h := range holds {
			slot := wire.Slot(h.keys.Hash)
			bySlot[slot] = append(bySlot[slot], h)
		}
		groups = slices.Collect(maps.Values(bySlot))
	}
	c.renewGroups(ctx, slices.Collect(slices.Chunk(c.renewGroups(ctx, groups), 1)))
}

// renewGroups renews each group of holds in as few script calls as possible. It returns the holds of
// refused calls: a single hold may be the cause.
func (c *Client) renewGroups(ctx context.Context, groups [][]*Hold) (refused []*Hold) {
	var calls []*redisx.Call
	var of [][]*Hold // of each call
	for _, group := range groups {
		for len(group) > 0 {
			n, script := batchOf(len(group))
			calls, of = append(calls, c.renewal(script, group[:n])), append(of, group[:n])
			group = group[n:]
		}
	}
	sent := time.Now()
	for i, result := range c.host.Runner.RunAll(ctx, calls) {
		ofOneKey := redis.IsTryAgainError(result.Err) || redis.IsPermissionError(result.Err)
		if len(of[i]) > 1 && ofOneKey {
			refused = append(refused, of[i]...)
			continue
		}
		for j, h := range of[i] {
			h.renewedAt(sent, result.Reply.At(j) == 1, result.Err)
		}
	}
	return refused
}

// batchOf returns how many of n holds the next script call renews, and the script.
func batchOf(n int) (int, *redisx.Script) {
	for i, size := range batches {
		if n >= size {
			return size, renewScripts[i]
		}
	}
	return 0, nil
}

// renewal returns the call of a script that renews holds.
func (c *Client) renewal(script *redisx.Script, holds []*Hold) *redisx.Call {
	call := &redisx.Call{Script: script, Args: []any{c.watchdog.Milliseconds()}}
	for _, h := range holds {
		call.Keys, call.Args = append(call.Keys, h.keys.Hash), append(call.Args, h.owner)
	}
	return call
}

// renewedAt handles the result of a renewal.
func (h *Hold) renewedAt(sent time.Time, kept bool, err error) {
	if err != nil {
		h.keys.client.retry(h)
		return
	}
	if !kept {
		h.end(h.lost(gone))
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.extend(sent)
}

// retryPart divides third: a failed renewal is tried again after that time.
const retryPart = 10

// retry schedules another renewal after one that has failed.
func (c *Client) retry(h *Hold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.listed != nil {
		h.due = time.Now().Add(c.third() / retryPart)
		c.renewed.MoveToFront(h.listed)
		signal(c.sooner)
	}
}
