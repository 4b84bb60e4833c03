package javapeer

import (
	"context"
	"time"
)

// CrowdOptions are the options of StartCrowd.
type CrowdOptions struct {
	Permits int64         // of one call; 0 is 1
	Threads int           // 0 is 1
	Timeout time.Duration // of each call; 0: the method without one
	Pause   time.Duration // after a call that was not granted; 0 is 1 ms
	Clients []string      // instances, one for each thread in turn; empty: that of the limiter
}

// A Crowd is threads that call tryAcquire until they are stopped. They continue after
// an exception, so Redis may fail meanwhile.
type Crowd struct {
	limiter *Limiter
	id      int64
}

// A CrowdGrant is a grant of a thread, with the times before and after the call, by the
// clock of this machine in whole ms.
type CrowdGrant struct {
	Start, End time.Time
	Thread     int
}

// A CrowdResult is what a crowd got since the last Drain.
type CrowdResult struct {
	Grants []CrowdGrant
	Errors map[string]int // exceptions by their class
	Stuck  int            // threads that did not end; after Stop
}

// StartCrowd starts a crowd.
func (l *Limiter) StartCrowd(ctx context.Context, o CrowdOptions) (*Crowd, error) {
	a := loadArgs(o.Permits, o.Threads, o.Clients)
	setPositive(a, "timeout", o.Timeout.Milliseconds())
	setPositive(a, "pause", o.Pause.Milliseconds())
	id, err := ask[int64](ctx, l, "crowd", a)
	return &Crowd{l, id}, err
}

// Drain returns what the crowd got since the last Drain.
func (c *Crowd) Drain(ctx context.Context) (CrowdResult, error) { return c.result(ctx, "drainCrowd") }

// Stop ends the crowd and returns the rest. Redisson may leave a thread waiting after
// a fault; the peer interrupts it after 3 s.
func (c *Crowd) Stop(ctx context.Context) (CrowdResult, error) { return c.result(ctx, "stopCrowd") }

func (c *Crowd) result(ctx context.Context, op string) (r CrowdResult, err error) {
	got, err := ask[struct {
		Grants [][3]int64
		Errors map[string]int
		Stuck  int
	}](ctx, c.limiter, op, args{"crowd": c.id})
	for _, g := range got.Grants {
		r.Grants = append(r.Grants, CrowdGrant{time.UnixMilli(g[0]), time.UnixMilli(g[1]), int(g[2])})
	}
	r.Errors, r.Stuck = got.Errors, got.Stuck
	return r, err
}
