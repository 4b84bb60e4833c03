package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A state is what a limiter is in when it is asked.
type state struct {
	name     string
	what     string // for the head of the output
	rate     int64
	interval time.Duration
	taken    int64         // permits, before
	refuses  bool          // every call is refused
	cold     bool          // noise before each call
	settle   time.Duration // calls for so long bring the limiter into the state
}

// states are what a call may meet. Each batch has a new limiter, so that in the
// first state none of its records is an interval old.
var states = []state{
	{name: "granted", what: "1,000,000 per 1 s, nothing has expired yet", rate: 1e6, interval: time.Second},
	{name: "steady", what: "1,000,000 per 20 ms, records expire all the time",
		rate: 1e6, interval: 20 * time.Millisecond, settle: 40 * time.Millisecond},
	{name: "cold", what: "granted, 1,000,000 per 100 s, Redis does something else before each call",
		rate: 1e6, interval: 100 * time.Second, cold: true},
	{name: "refused", what: "5 per 100 s, 5 are taken",
		rate: 5, interval: 100 * time.Second, taken: 5, refuses: true},
}

// limiter makes a limiter in state st, which serves Redisson as well. It returns
// its name and a function that removes it.
func (c *costing) limiter(ctx context.Context, st state) (name string, remove func(), err error) {
	name = redistest.Name(c.scope)
	l := c.setter.RateLimiter(name)
	// Deleted, not flushed: the noise has its keys on the same server.
	remove = func() { _, _ = l.Delete(ctx) } // its name is not used again
	if _, err = l.TrySetRate(ctx, rratelimiter.Overall, st.rate, st.interval); err == nil && st.taken > 0 {
		_, err = l.TryAcquire(ctx, st.taken, 0)
	}
	return name, remove, err
}

// check returns an error if n calls were not answered as the state has it: then
// something else was measured than the output says.
func (st state) check(granted, n int) error {
	want := n
	if st.refuses {
		want = 0
	}
	if granted >= 0 && granted != want {
		return fmt.Errorf("%d of %d calls were granted, not %d", granted, n, want)
	}
	return nil
}
