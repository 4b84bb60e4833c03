package javapeer

import (
	"cmp"
	"context"
	"encoding/json"
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

// LockCrowdOptions are the options of StartCrowd.
type LockCrowdOptions struct {
	Threads int      // 0 is 1
	Rounds  int      // of each thread; 0 is 1
	Counter string   // the key of the counter
	Clients []string // instances, one for each thread in turn
}

// A Hold is the time from the end of lock() to the start of unlock(), by the clock of
// this machine in whole µs.
type Hold struct{ From, To time.Time }

// UnmarshalJSON reads it from a list of two.
func (h *Hold) UnmarshalJSON(text []byte) error {
	var us [2]int64
	err := json.Unmarshal(text, &us)
	h.From, h.To = time.UnixMicro(us[0]), time.UnixMicro(us[1])
	return err
}

// LockCrowdResult is what a crowd did.
type LockCrowdResult struct {
	Errors map[string]int // exceptions by their class
	Holds  []Hold         // of all threads, ordered by their start
}

// StartCrowd starts threads that take the lock in turns. In each round a thread locks,
// reads the counter with GET, writes it back one higher with SET, and unlocks. If the
// lock keeps the threads apart, the counter grows by the number of rounds. After an
// exception the thread rests 10 ms, and does not repeat the round.
func (l *Lock) StartCrowd(o LockCrowdOptions) *Started[LockCrowdResult] {
	return start[LockCrowdResult](l.peer, "lock.crowd", l.about(args{
		"threads": cmp.Or(o.Threads, 1), "rounds": cmp.Or(o.Rounds, 1), "counter": o.Counter,
		"clients": o.Clients,
	}))
}
